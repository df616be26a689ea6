// Damaged files: each is refused with the one kind of error, or else read within its bounds.
#include <random>

#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "tests/trainer/weights/raw_file.h"
#include "trainer/weights/safetensors.h"

namespace trireme::weights {
namespace {

class SafetensorsFuzz : public testing::Test {
 protected:
  MemoryFile file_;
  std::mt19937_64 random_{20260801};
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  /// 1 if it was read, 0 if it was refused.
  int try_file(const std::string& content) {
    const std::string file = file_.put(content);
    try {
      const SafetensorsReader reader(file);
      uint64_t covered = 0, sum = 0;
      for (const TensorInfo& tensor : reader.tensors()) {
        EXPECT_EQ(tensor.begin, covered);
        covered = tensor.end;
        for (const char byte : text_of(reader, tensor)) sum += static_cast<unsigned char>(byte);
        EXPECT_EQ(reader.find(tensor.name), &tensor);
      }
      EXPECT_LE(covered, content.size());
      EXPECT_LE(sum, covered * 255);
      return 1;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt_data) << error.message();
      EXPECT_NE(error.message().find(file), std::string::npos) << error.message();
      return 0;
    }
  }

  std::string change_bytes(std::string content, size_t region) {
    const std::string tokens = "{}[]\",:0123456789-.eE\\ \xff\x80 \n";
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(region);
      switch (below(5)) {
        case 0:
          content[at] = static_cast<char>(random_());
          break;
        case 1:
          content[at] = tokens[below(tokens.size())];
          break;
        case 2:
          content.erase(at, 1 + below(8));
          break;
        case 3:
          content.insert(at, 1 + below(3), tokens[below(tokens.size())]);
          break;
        default:
          content[at] = static_cast<char>(content[at] ^ 1 << below(8));
      }
    }
    return content;
  }

  /// Sound JSON that says something else.
  nlohmann::json change_value(nlohmann::json header) {
    auto entry = header.begin();
    std::advance(entry, below(header.size()));
    const nlohmann::json values[] = {nullptr,
                                     -1,
                                     0,
                                     1,
                                     7,
                                     8,
                                     1e300,
                                     0.5,
                                     UINT64_MAX,
                                     INT64_MAX,
                                     "F32",
                                     "U8",
                                     "BF16",
                                     "",
                                     nlohmann::json::array(),
                                     nlohmann::json::object(),
                                     {0, 8},
                                     {8, 0},
                                     {0, UINT64_MAX},
                                     {UINT64_MAX, UINT64_MAX},
                                     {INT64_MAX, 2},
                                     {0, UINT32_MAX, UINT32_MAX}};
    const auto& value = values[below(std::size(values))];
    switch (below(5)) {
      case 0:
        *entry = value;
        break;
      case 1:
        header.erase(entry);
        break;
      default:
        if (!entry->is_object() || entry->empty()) break;
        auto field = entry->begin();
        std::advance(field, below(entry->size()));
        if (field->is_array() && !field->empty() && below(2) == 0)
          (*field)[below(field->size())] = value;
        else
          *field = value;
    }
    return header;
  }
};

constexpr int kRounds = 50000;

TEST_F(SafetensorsFuzz, ChangedBytesOfTheHeader) {
  const std::string whole = files::read(golden("types.safetensors"));
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof header);
  int read = 0;
  for (int i = 0; i < kRounds; ++i) read += try_file(change_bytes(whole, 8 + header));
  EXPECT_GT(read, 0);
  EXPECT_LT(read, kRounds / 2);
}

TEST_F(SafetensorsFuzz, ChangedValuesInTheHeader) {
  const std::string whole = files::read(golden("types.safetensors"));
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  const auto header = nlohmann::json::parse(whole.substr(8, length));
  int read = 0;
  for (int i = 0; i < kRounds; ++i)
    read += try_file(raw_file(change_value(header).dump(), whole.substr(8 + length)));
  EXPECT_GT(read, 0);
  EXPECT_LT(read, kRounds / 2);
}

TEST_F(SafetensorsFuzz, RandomBytes) {
  for (int i = 0; i < kRounds / 5; ++i) {
    std::string content(below(300), '\0');
    for (char& c : content) c = static_cast<char>(random_());
    if (content.size() >= 8 && below(2) == 0) {  // a header length that fits
      const uint64_t length = below(content.size() - 7);
      std::memcpy(content.data(), &length, sizeof length);
    }
    try_file(content);
  }
}

}  // namespace
}  // namespace trireme::weights
