// `trireme bench comm`: every operation comes out right on the ranks that were asked for, and the figures are
// those that the formulas say.
#include <iterator>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

using Json = nlohmann::ordered_json;

class BenchComm : public LaunchTest {
 protected:
  Result bench(std::vector<std::string> more) {
    std::vector<std::string> arguments{"bench", "comm"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start(std::move(arguments));
    return finish(std::chrono::seconds(100));
  }
  Json figures(std::vector<std::string> more) {
    more.insert(more.end(), {"--iterations", "2", "--warmup", "1", "--json"});
    const Result result = bench(std::move(more));
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
};

TEST_F(BenchComm, EveryOperationAndTypeComesOutRight) {
  for (const char* type : {"float32", "bfloat16", "float64", "int32", "int64", "uint8"}) {
    const Json found =
        figures({"-n", "3", "--min-bytes", "1000", "--max-bytes", "100K", "--factor", "10", "--dtype", type});
    EXPECT_EQ(found["ranks"], 3);
    ASSERT_EQ(found["results"].size(), 6 * 3) << type;  // 1000, 10000 and 100000 bytes
    for (const Json& line : found["results"]) {
      EXPECT_EQ(line["wrong"], 0) << line.dump();
      EXPECT_GT(line["us"].get<double>(), 0) << line.dump();
    }
  }
}

// Bandwidths from times, by the published factors.
TEST_F(BenchComm, BandwidthsFollowFromTimes) {
  const std::map<std::string, double> factors{{"all_reduce", 1.5},    {"reduce_scatter", 0.75},
                                              {"all_gather", 0.75},   {"broadcast", 1},
                                              {"all_to_all_v", 0.75}, {"send_recv", 1}};
  const Json found = figures({"-n", "4", "--min-bytes", "64K", "--max-bytes", "64K"});
  ASSERT_EQ(found["results"].size(), factors.size());
  for (const Json& line : found["results"]) {
    const double algbw = line["bytes"].get<double>() / line["us"].get<double>() / 1e3;
    EXPECT_EQ(line["bytes"], 65536) << line.dump();
    EXPECT_NEAR(line["algbw"].get<double>(), algbw, 1e-9 * algbw);
    EXPECT_NEAR(line["busbw"].get<double>(), algbw * factors.at(line["operation"]), 1e-9 * algbw);
  }
}

TEST_F(BenchComm, GroupsAreMeasuredSideBySide) {
  const Json found = figures({"-n", "4", "--tp", "2", "--group", "all,tp,dp", "--ops",
                              "all_reduce,all_gather", "--min-bytes", "4K", "--max-bytes", "4K"});
  ASSERT_EQ(found["results"].size(), 6);
  const std::vector<int> ranks{4, 4, 2, 2, 2, 2};
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(found["results"][i]["ranks"], ranks[i]);
    EXPECT_EQ(found["results"][i]["wrong"], 0);
  }
}

TEST_F(BenchComm, TheTableHasNcclTestsColumns) {
  const Result result = bench({"-n", "2", "--ops", "all_reduce", "--min-bytes", "8", "--max-bytes", "16"});
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<std::string> head, line;
  std::istringstream lines(result.out);
  for (std::string text; std::getline(lines, text);) {
    std::istringstream words(text);
    std::vector<std::string> found{std::istream_iterator<std::string>(words), {}};
    if (found.size() > 1 && found[1] == "size") head = found;
    if (!found.empty() && found[0] == "16") line = found;
  }
  EXPECT_EQ(head, (std::vector<std::string>{"#", "size", "count", "type", "redop", "root", "time", "algbw",
                                            "busbw", "#wrong"}))
      << result.out;
  ASSERT_EQ(line.size(), 9) << result.out;
  EXPECT_EQ(line[1], "4");
  EXPECT_EQ(line[2], "float32");
  EXPECT_EQ(line[3], "sum");
  EXPECT_EQ(line[8], "0");
}

TEST_F(BenchComm, OneRankNeedsNobody) {
  const Json found = figures({"--min-bytes", "1", "--max-bytes", "1K", "--factor", "32"});
  EXPECT_EQ(found["ranks"], 1);
  for (const Json& line : found["results"]) EXPECT_EQ(line["wrong"], 0) << line.dump();
}

TEST_F(BenchComm, WhatCannotBeMeasuredIsSaid) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"--ops", "allreduce"}, "--ops 'allreduce' is none of all_reduce"},
      {{"--group", "pp"}, "--group 'pp' is none of all, tp, dp"},
      {{"--dtype", "fp8"}, "--dtype 'fp8' is none of float32"},
      {{"--min-bytes", "8X"}, "--min-bytes '8X'"},
      {{"--max-bytes", ""}, "--max-bytes"},
      {{"--min-bytes", "2K", "--max-bytes", "1K"}, "is more than --max-bytes"},
      {{"--factor", "1"}, "--factor 1: at least 2"},
      {{"--iterations", "0"}, "--iterations 0"},
      {{"--warmup", "-1"}, "--warmup -1"},
      {{"--tp", "2"}, "--tp 2 does not divide 1 ranks"},
      {{"--sizes", "8"}, "sizes"}};
  for (const auto& [arguments, message] : wrong) {
    const Result result = bench(arguments);
    EXPECT_NE(result.status, 0) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << message << "\n" << result.err;
  }
}

}  // namespace
}  // namespace trireme::commands
