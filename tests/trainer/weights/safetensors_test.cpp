#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <map>

#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "tests/trainer/weights/raw_file.h"
#include "trainer/weights/safetensors.h"

namespace trireme::weights {
namespace {

using Safetensors = InFolder;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const SafetensorsReader& file, const std::string& name) {
  return weights::text_of(file, *file.find(name));
}

TEST_F(Safetensors, ReadsAFileOfTheReferenceLibrary) {
  const SafetensorsReader file(golden("types.safetensors"));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"step", "12"}}));
  EXPECT_EQ(file.tensors().size(), 13u);
  EXPECT_EQ(file.find("nothing"), nullptr);
  for (const char* dtype : {"F32", "F64", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}) {
    const TensorInfo* tensor = file.find(dtype);
    ASSERT_NE(tensor, nullptr) << dtype;
    EXPECT_EQ(tensor->dtype, dtype);
    EXPECT_EQ(tensor->shape, (std::vector<int64_t>{3, 5}));
    EXPECT_EQ(static_cast<int64_t>(tensor->num_bytes()) * 8, 15 * dtype_bits(dtype));
  }
  EXPECT_EQ(file.find("scalar")->shape, std::vector<int64_t>{});
  EXPECT_EQ(file.find("empty")->shape, (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(text_of(file, "empty"), "");

  const std::string name = "größe \"x\"\n";
  const std::string values = text_of(file, name);
  ASSERT_EQ(values.size(), 8 * sizeof(float));
  for (int64_t i = 0; i < 8; ++i) {
    float value = 0;
    std::memcpy(&value, values.data() + i * sizeof value, sizeof value);
    EXPECT_EQ(value, pattern(name, i));
  }
}

TEST_F(Safetensors, ReadsBackWhatWasWrittenInAnyOrder) {
  SafetensorsWriter writer(path("x"),
                           {{"b", "U8", {3}}, {"a", "F32", {2}}, {"s", "I64", {}}, {"e", "F32", {0, 7}}},
                           {{"format", "pt"}, {"k", "v"}});
  writer.write("s", bytes_of("12345678"));
  writer.write("b", bytes_of("abc"));
  writer.write("e", {});
  writer.write("a", bytes_of("ABCDEFGH"));
  EXPECT_FALSE(std::filesystem::exists(path("x")));
  writer.finish();
  EXPECT_EQ(count(), 1u);

  const SafetensorsReader file(path("x"));
  EXPECT_EQ(text_of(file, "a"), "ABCDEFGH");
  EXPECT_EQ(text_of(file, "b"), "abc");
  EXPECT_EQ(text_of(file, "s"), "12345678");
  EXPECT_EQ(file.find("e")->shape, (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(file.metadata().at("k"), "v");
}

TEST_F(Safetensors, EveryTensorIsAlignedToItsType) {
  SafetensorsWriter writer(path("x"),
                           {{"a", "U8", {3}}, {"b", "BF16", {3}}, {"c", "F64", {1}}, {"d", "F32", {1}}});
  writer.write("a", bytes_of("abc"));
  writer.write("b", bytes_of("abcdef"));
  writer.write("c", bytes_of("abcdefgh"));
  writer.write("d", bytes_of("abcd"));
  writer.finish();
  const SafetensorsReader file(path("x"));
  for (const TensorInfo& tensor : file.tensors())
    EXPECT_EQ(tensor.begin % (dtype_bits(tensor.dtype) / 8), 0u) << tensor.name;
  const std::string whole = files::read(path("x"));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof header_bytes);
  EXPECT_EQ((sizeof header_bytes + header_bytes) % 8, 0u);  // so that they are aligned in the file, too
}

TEST_F(Safetensors, APartOfATensorIsRead) {
  SafetensorsWriter writer(path("x"), {{"a", "U8", {10}}});
  writer.write("a", bytes_of("0123456789"));
  writer.finish();
  const SafetensorsReader file(path("x"));
  std::string part(3, ' ');
  file.read(*file.find("a"), 4, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "456");
  EXPECT_THROW(file.read(*file.find("a"), 8, std::as_writable_bytes(std::span(part))), Error);
}

TEST_F(Safetensors, AFileThatIsCutShortWhileItIsOpenIsCorrupt) {
  SafetensorsWriter writer(path("x"), {{"a", "U8", {10}}});
  writer.write("a", bytes_of("0123456789"));
  writer.finish();
  const SafetensorsReader file(path("x"));
  std::filesystem::resize_file(path("x"), std::filesystem::file_size(path("x")) - 1);
  EXPECT_HAS(message(ErrorCode::corrupt_data, [&] { text_of(file, "a"); }), "was cut short");
}

TEST_F(Safetensors, AFileWithoutTensorsIsAFile) {
  SafetensorsWriter(path("x"), {}, {}).finish();
  EXPECT_TRUE(SafetensorsReader(path("x")).tensors().empty());
  EXPECT_EQ(files::read(path("x")).size() % 8, 0u);
}

TEST_F(Safetensors, AnUnfinishedFileVanishes) {
  put("x", "old");
  {
    SafetensorsWriter writer(path("x"), {{"a", "U8", {1}}});
    EXPECT_EQ(count(), 2u);
  }
  EXPECT_EQ(count(), 1u);
  EXPECT_EQ(files::read(path("x")), "old");
}

TEST_F(Safetensors, PartsOfATensorComeInAnyOrder) {
  SafetensorsWriter writer(path("x"), {{"a", "U8", {6}}, {"b", "U8", {2}}});
  writer.write_part("a", 4, bytes_of("ef"));
  writer.write("b", bytes_of("xy"));
  writer.write_part("a", 0, bytes_of("a"));
  EXPECT_HAS(message(ErrorCode::internal, [&] { writer.finish(); }), "3 bytes of tensor a were not written");
  EXPECT_HAS(message(ErrorCode::internal, [&] { writer.write_part("a", 2, bytes_of("wxyz")); }),
             "tensor a has 6 bytes, 3 are missing, 4 were given from 2 on");
  message(ErrorCode::internal, [&] { writer.write_part("a", 5, bytes_of("gh")); });
  message(ErrorCode::internal, [&] { writer.write_part("c", 0, bytes_of("g")); });
  writer.write_part("a", 1, bytes_of("bcd"));
  message(ErrorCode::internal, [&] { writer.write_part("a", 1, bytes_of("b")); });
  writer.finish();
  const SafetensorsReader file(path("x"));
  EXPECT_EQ(text_of(file, *file.find("a")), "abcdef");
  EXPECT_EQ(text_of(file, *file.find("b")), "xy");
}

TEST_F(Safetensors, AWriterMisusedSaysSo) {
  message(ErrorCode::internal, [&] { SafetensorsWriter(path("x"), {{"a", "U8", {1}}, {"a", "U8", {1}}}); });
  message(ErrorCode::internal, [&] { SafetensorsWriter(path("x"), {{"a", "float", {1}}}); });
  SafetensorsWriter writer(path("x"), {{"a", "U8", {2}}});
  message(ErrorCode::internal, [&] { writer.write("b", bytes_of("ab")); });
  message(ErrorCode::internal, [&] { writer.write("a", bytes_of("abc")); });
  EXPECT_HAS(message(ErrorCode::internal, [&] { writer.finish(); }), "2 bytes of tensor a were not written");
  writer.write("a", bytes_of("ab"));
  message(ErrorCode::internal, [&] { writer.write("a", bytes_of("ab")); });
  writer.finish();
  message(ErrorCode::internal, [&] { writer.finish(); });
}

TEST_F(Safetensors, AFullDiskIsIoAndLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {  // no file may grow beyond the limit, as on a disk that is full
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{500, 500};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      SafetensorsWriter writer(path("x"), {{"a", "U8", {1000}}});
      writer.write("a", bytes_of(std::string(1000, 'a')));
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::io && error.message().find(path("x")) != std::string::npos ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(count(), 0u);
}

TEST_F(Safetensors, WhatCannotBeOpenedIsIo) {
  EXPECT_HAS(message(ErrorCode::io, [&] { SafetensorsReader(path("absent")); }), path("absent"));
  EXPECT_HAS(message(ErrorCode::io, [&] { SafetensorsReader(folder_.string()); }), "not a file");
  message(ErrorCode::io, [&] { SafetensorsWriter(path("absent/x"), {}); });
}

TEST_F(Safetensors, TensorsNeedNotBeAligned) {  // the format does not ask for it
  const auto file = put("x", raw_file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},)"
                                      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                      "bABCD"));
  EXPECT_EQ(text_of(SafetensorsReader(file), "a"), "ABCD");
}

TEST_F(Safetensors, KnowsTheFormatsSmallTypes) {
  const auto file = put("x", raw_file(R"({"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]},)"
                                      R"("b":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[3,5]}})",
                                      "abcde"));
  EXPECT_EQ(text_of(SafetensorsReader(file), "a"), "abc");
}

struct Malformed {
  const char* what;
  std::string content;
  const char* says;
};

// One tensor "a" with this entry, and `data` bytes behind the header.
std::string one(const std::string& entry, size_t data) {
  return raw_file("{\"a\":" + entry + "}", std::string(data, 'd'));
}

std::string two(const std::string& a_offsets, const std::string& b_offsets, size_t data) {
  return raw_file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a_offsets +
                      R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b_offsets + "}}",
                  std::string(data, 'd'));
}

std::vector<Malformed> malformed_files() {
  const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  std::string huge = raw_file("{}");
  huge[7] = '\x7f';
  std::string longer = raw_file("{}");
  longer[0] = 3;
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  return {
      {"empty", "", "too few"},
      {"shorter than its length", "\x10\0\0", "too few"},
      {"header beyond any limit", huge, "larger than the format allows"},
      {"not this format", std::string(100, 'x'), "is it a safetensors file?"},
      {"header beyond the file", longer, "cut short"},
      {"header cut off", raw_file("{\"a\""), "not valid JSON"},
      {"no header", raw_file(""), "not valid JSON"},
      {"header not an object", raw_file("[1]"), "not a JSON object"},
      {"not UTF-8", raw_file("{\"\xff\":1}"), "not valid JSON"},
      {"two headers", raw_file("{}{}"), "not valid JSON"},
      {"nested without end", raw_file(deep), "nested too deeply"},
      {"name twice", raw_file("{\"a\":" + good + ",\"a\":" + good + "}", std::string(8, 'd')),
       "says \"a\" twice"},
      {"field twice", one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "twice"},
      {"metadata of numbers", raw_file(R"({"__metadata__":{"a":1}})"), "__metadata__"},
      {"metadata a list", raw_file(R"({"__metadata__":[]})"), "__metadata__"},
      {"entry not an object", one("3", 0), "tensor \"a\": its entry"},
      {"no dtype", one(R"({"shape":[2],"data_offsets":[0,8]})", 8), "tensor \"a\": dtype is missing"},
      {"no shape", one(R"({"dtype":"F32","data_offsets":[0,8]})", 8), "tensor \"a\": shape is missing"},
      {"no offsets", one(R"({"dtype":"F32","shape":[2]})", 8), "tensor \"a\": data_offsets is missing"},
      {"unknown dtype", one(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})", 8), "F33"},
      {"dtype in lower case", one(R"({"dtype":"f32","shape":[2],"data_offsets":[0,8]})", 8),
       "none of the format's"},
      {"dtype a number", one(R"({"dtype":32,"shape":[2],"data_offsets":[0,8]})", 8), "none of the format's"},
      {"shape a number", one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", 8), "its shape is not"},
      {"negative extent", one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8), "its shape is not"},
      {"fraction", one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", 8), "its shape is not"},
      {"extent beyond 64 bits",
       one(R"({"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]})", 8), "its shape is not"},
      {"product beyond 64 bits",
       one(R"({"dtype":"F32","shape":[4294967296,4294967298],"data_offsets":[0,8]})", 8),
       "its shape is too large"},
      {"product that wraps to zero",
       one(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0),
       "its shape is too large"},
      {"half a byte", one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,2]})", 2), "whole byte"},
      {"three offsets", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})", 8), "not a pair"},
      {"negative offset", one(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})", 8), "not a pair"},
      {"end before begin", one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8),
       "ends before it begins"},
      {"too few bytes for the shape", one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8),
       "takes 12 bytes, its offsets give it 8"},
      {"bytes not a multiple of the type", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,7]})", 7),
       "takes 8 bytes, its offsets give it 7"},
      {"data cut short", one(good, 7), "tensor \"a\" ends at byte 8 of the data, there are 7"},
      {"offsets far out",
       one(R"({"dtype":"U8","shape":[8],"data_offsets":[9223372036854775799,9223372036854775807]})", 8),
       "tensor \"a\" ends at byte"},
      {"bytes left over", one(good, 9), "1 bytes at its end"},
      {"bytes before the first", one(R"({"dtype":"U8","shape":[4],"data_offsets":[4,8]})", 8),
       "4 bytes before tensor \"a\""},
      {"same place", two("[0,4]", "[0,4]", 4), "overlaps"},
      {"overlap", two("[0,4]", "[3,7]", 7), "tensor \"b\" overlaps \"a\""},
      {"overlap, the other way", two("[3,7]", "[0,4]", 7), "tensor \"a\" overlaps \"b\""},
      {"hole", two("[0,4]", "[5,9]", 9), "1 bytes before tensor \"b\""},
  };
}

TEST_F(Safetensors, EveryMalformedFileIsRefusedByName) {
  for (const Malformed& c : malformed_files()) {
    SCOPED_TRACE(c.what);
    const std::string file = put("bad.safetensors", c.content);
    const std::string text = message(ErrorCode::corrupt_data, [&] { SafetensorsReader reader(file); });
    EXPECT_HAS(text, file);
    EXPECT_HAS(text, c.says);
  }
}

TEST_F(Safetensors, EveryTruncationOfAFileIsRefused) {
  const std::string whole = files::read(golden("types.safetensors"));
  const MemoryFile memory;
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string file = memory.put(whole.substr(0, length));
    message(ErrorCode::corrupt_data, [&] { SafetensorsReader reader(file); });
  }
}

TEST_F(Safetensors, NamesInMessagesAreShortAndPrintable) {
  const std::string name(100000, 'n');
  const auto long_name = put("x", raw_file("{\"" + name + "\":3}"));
  EXPECT_LT(message(ErrorCode::corrupt_data, [&] { SafetensorsReader reader(long_name); }).size(), 500u);
  const auto control = put("y", raw_file(R"({"\u001b[2J\n":3})"));
  EXPECT_HAS(message(ErrorCode::corrupt_data, [&] { SafetensorsReader reader(control); }),
             R"("\u001b[2J\n")");
}

}  // namespace
}  // namespace trireme::weights
