#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/observe/event_file.h"
#include "runtime/observe/metrics.h"
#include "tests/oracle_python.h"

namespace trireme::observe {
namespace {

namespace fs = std::filesystem;

class Sinks : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "trireme_observe_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> event_files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "tb")) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    return files;
  }
  fs::path folder_;
};
using JsonlSink = Sinks;
using TensorboardSink = Sinks;

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_F(JsonlSink, WritesOneObjectALine) {
  const auto sink = jsonl_sink(path("m.jsonl"));
  sink->write(1, {{"actor/lr", 1e-6}, {"critic/score/mean", 0.1}});
  sink->write(2, {});
  const auto lines = lines_of(path("m.jsonl"));  // while it is open: each line is flushed
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["metrics"], (nlohmann::json{{"actor/lr", 1e-6}, {"critic/score/mean", 0.1}}));
  EXPECT_GT(lines[0]["time"], 1.6e9);
  EXPECT_FALSE(lines[0].contains("not_finite"));
  EXPECT_EQ(lines[1]["metrics"], nlohmann::json::object());
}

TEST_F(JsonlSink, KeepsEveryDigit) {
  const double values[] = {0.1 + 0.2, 1.0 / 3, std::numeric_limits<double>::max(), -5e-324,
                           1234567890123456.0};
  for (const double value : values) jsonl_sink(path("m.jsonl"))->write(1, {{"x", value}});
  const auto lines = lines_of(path("m.jsonl"));
  for (size_t i = 0; i < std::size(values); ++i) EXPECT_EQ(lines[i]["metrics"]["x"].get<double>(), values[i]);
}

TEST_F(JsonlSink, SaysWhatIsNotFinite) {
  jsonl_sink(path("m.jsonl"))->write(7, {{"a", NAN}, {"b", INFINITY}, {"c", -INFINITY}, {"d", 1}});
  const auto line = lines_of(path("m.jsonl")).at(0);
  EXPECT_TRUE(line["metrics"]["a"].is_null());
  EXPECT_TRUE(line["metrics"]["b"].is_null());
  EXPECT_EQ(line["metrics"]["d"], 1);
  EXPECT_EQ(line["not_finite"], (nlohmann::json{{"a", "nan"}, {"b", "inf"}, {"c", "-inf"}}));
}

TEST_F(JsonlSink, AppendsAndCutsOffAnUnfinishedLine) {
  jsonl_sink(path("m.jsonl"))->write(1, {{"x", 1}});
  jsonl_sink(path("m.jsonl"))->write(2, {{"x", 2}});
  std::ofstream(path("m.jsonl"), std::ios::app) << R"({"step": 3, "met)";
  jsonl_sink(path("m.jsonl"))->write(3, {{"x", 3}});
  const auto lines = lines_of(path("m.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lines[i]["step"], i + 1);

  std::ofstream(path("only.jsonl")) << "{ never finished";
  jsonl_sink(path("only.jsonl"))->write(1, {});
  EXPECT_EQ(lines_of(path("only.jsonl")).size(), 1u);
}

TEST_F(JsonlSink, APlaceThatCannotBeWrittenIsIo) {
  for (const char* name : {"absent/m.jsonl", ""}) try {
      jsonl_sink(path(name));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_NE(error.message().find(path(name)), std::string::npos) << error.message();
    }
}

TEST(Crc32c, GivesThePublishedSums) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// What TensorFlow's own record writer makes of "abc", from its format's definition worked out by hand.
TEST(TfRecord, FramesWithLengthAndMaskedSums) {
  const std::string record = tf_record("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  const auto mask = [](uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; };
  uint32_t sum = 0;
  std::memcpy(&sum, record.data() + 8, 4);
  EXPECT_EQ(sum, mask(crc32c(record.substr(0, 8))));
  std::memcpy(&sum, record.data() + 15, 4);
  EXPECT_EQ(sum, mask(crc32c("abc")));
}

TEST(EventFile, HasTheGoldenBytes) {  // read back exactly by PyPI tensorboard (see the test below)
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const unsigned char c : bytes) text += fmt::format("{:02x}", c);
    return text;
  };
  EXPECT_EQ(hex(version_event(1.5)), "09000000000000f83f1a0d627261696e2e4576656e743a32");
  EXPECT_EQ(hex(scalars_event(1.5, 300, {{"a/b", 0.5}})),
            "09000000000000f83f10ac022a0c0a0a0a03612f62150000003f");
}

/// A reader of its own, written from the protobuf wire format alone.
struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

class Wire {
 public:
  explicit Wire(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  template <typename T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view bytes() { return take(varint()); }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) throw std::runtime_error("message is cut short");
    const auto taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

 private:
  std::string_view bytes_;
};

Event decode_event(std::string_view payload) {
  Event event;
  for (Wire wire(payload); !wire.done();) switch (wire.varint()) {
      case 1 << 3 | 1:
        event.wall_time = wire.fixed<double>();
        break;
      case 2 << 3 | 0:
        event.step = static_cast<int64_t>(wire.varint());
        break;
      case 3 << 3 | 2:
        event.version = wire.bytes();
        break;
      case 5 << 3 | 2:
        for (Wire summary(wire.bytes()); !summary.done();) {
          EXPECT_EQ(summary.varint(), 1u << 3 | 2);
          Wire value(summary.bytes());
          EXPECT_EQ(value.varint(), 1u << 3 | 2);
          const std::string tag(value.bytes());
          EXPECT_EQ(value.varint(), 2u << 3 | 5);
          EXPECT_TRUE(event.scalars.emplace(tag, value.fixed<float>()).second) << tag;
          EXPECT_TRUE(value.done());
        }
        break;
      default:
        throw std::runtime_error("unknown field");
    }
  return event;
}

std::vector<Event> decode_file(const std::string& path) {
  const std::string content = files::read(path);
  std::vector<Event> events;
  for (Wire wire(content); !wire.done();) {
    const auto length = wire.fixed<uint64_t>();
    wire.fixed<uint32_t>();
    const auto payload = wire.take(length);
    wire.fixed<uint32_t>();
    events.push_back(decode_event(payload));
    EXPECT_NE(content.find(tf_record(payload)), std::string::npos);  // both sums
  }
  return events;
}

Metrics odd_metrics() {
  Metrics metrics{{"actor/lr", 1e-6}, {"nan", NAN}, {"inf", INFINITY},
                  {"big", 1e300},     {"", 2},      {"größe", -3}};
  for (int i = 0; i < 100; ++i) metrics["many/" + std::string(static_cast<size_t>(i), 'x')] = i;
  return metrics;
}

TEST_F(TensorboardSink, IsReadBack) {
  const auto sink = tensorboard_sink(path("tb"));
  sink->write(0, {});
  sink->write(1, {{"actor/lr", 0.25}});
  sink->write(int64_t{1} << 40, odd_metrics());
  ASSERT_EQ(event_files().size(), 1u);
  EXPECT_NE(event_files()[0].find("events.out.tfevents."), std::string::npos);
  const auto events = decode_file(event_files()[0]);  // while it is open: each step is flushed
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.6e9);
  EXPECT_TRUE(events[1].scalars.empty());
  EXPECT_EQ(events[2].step, 1);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"actor/lr", 0.25f}}));
  EXPECT_EQ(events[3].step, int64_t{1} << 40);
  const Metrics metrics = odd_metrics();
  ASSERT_EQ(events[3].scalars.size(), metrics.size());
  for (const auto& [name, value] : metrics) {
    const float read = events[3].scalars.at(name);
    EXPECT_TRUE(std::isnan(value) ? std::isnan(read) : read == static_cast<float>(value)) << name;
  }
}

TEST_F(TensorboardSink, EachSinkHasAFileOfItsOwn) {
  tensorboard_sink(path("tb"))->write(1, {});
  tensorboard_sink(path("tb"))->write(2, {});
  EXPECT_EQ(event_files().size(), 2u);
}

TEST_F(TensorboardSink, AFolderThatCannotBeMadeIsIo) {
  std::ofstream(path("file")) << "";
  try {
    tensorboard_sink(path("file/tb"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
}

TEST_F(TensorboardSink, IsReadByTensorboardItself) {
  const auto python = oracle_python("tensorboard");
  if (!python) GTEST_SKIP() << "no Python with tensorboard; the golden bytes above were read by it";
  tensorboard_sink(path("tb"))->write(300, {{"actor/lr", 0.25}, {"critic/score/mean", -1.5}, {"x", NAN}});
  std::ofstream(path("read.py")) << R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}); events.Reload()
print(" ".join(f"{tag}={e.step}:{e.value}" for tag in sorted(events.Tags()["scalars"]) for e in events.Scalars(tag)))
)";
  FILE* output = ::popen((*python + " " + path("read.py") + " " + path("tb") + " 2>/dev/null").c_str(), "r");
  ASSERT_NE(output, nullptr);
  char line[1000] = {};
  ASSERT_NE(std::fgets(line, sizeof line, output), nullptr);
  EXPECT_EQ(::pclose(output), 0);
  EXPECT_STREQ(line, "actor/lr=300:0.25 critic/score/mean=300:-1.5 x=300:nan\n");
}

}  // namespace
}  // namespace trireme::observe
