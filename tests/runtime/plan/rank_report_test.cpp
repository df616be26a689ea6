#include "runtime/plan/rank_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace trireme::plan {
namespace {

Report there_and_back(const Report& report) {
  std::string line = encode(report);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  line.pop_back();
  return decode_report(line);
}

TEST(RankReport, CarriesHello) {
  const auto hello = std::get<Hello>(there_and_back(Hello{3, "s3cret", "node-1", 4711, "b00t"}));
  EXPECT_EQ(hello.rank, 3);
  EXPECT_EQ(hello.secret, "s3cret");
  EXPECT_EQ(hello.host, "node-1");
  EXPECT_EQ(hello.guard_pid, 4711);
  EXPECT_EQ(hello.boot, "b00t");
}

TEST(RankReport, CarriesAHost) {
  const auto host = std::get<HostReport>(there_and_back(
      HostReport{"# trireme machine 1\na = b\n", {{"NCCL_DEBUG", {"INFO", "/etc/nccl.conf"}}}, 4711}));
  EXPECT_EQ(host.machine, "# trireme machine 1\na = b\n");
  EXPECT_EQ(host.settings.at("NCCL_DEBUG").second, "/etc/nccl.conf");
  EXPECT_EQ(host.free_port, 4711);
}

TEST(RankReport, CarriesAllThatAGuardNeedsToStart) {
  auto line = encode(Start{"{\n \"version\": 3\n}\n", "[run]\nseed = 1\n"});
  line.pop_back();
  const auto start = decode_start(line);
  EXPECT_EQ(start.plan, "{\n \"version\": 3\n}\n");
  EXPECT_EQ(start.config, "[run]\nseed = 1\n");
  EXPECT_THROW(decode_start("{\"plan\": 3}"), Error);
}

TEST(RankReport, CarriesLinesWithAnyContent) {
  const auto output = std::get<Output>(
      there_and_back(Output{true, {"", "a \"quoted\"\tline", "caf\xc3\xa9", "bad \xff\xfe"}}));
  EXPECT_TRUE(output.is_error);
  EXPECT_EQ(output.lines,
            (std::vector<std::string>{"", "a \"quoted\"\tline", "caf\xc3\xa9", "bad \uFFFD\uFFFD"}));
  EXPECT_FALSE(std::get<Output>(there_and_back(Output{false, {"x"}})).is_error);
}

TEST(RankReport, CarriesThePage) {
  auto page = RankPage::open("");
  page.set_phase("grpo", 9);
  page.set_step(4);
  page.set_stage("update_actor");
  page.tick();
  page.set_error(ErrorCode::bad_shape, "3 is not 4");
  page.begin_collective(page.communicator_slot("world"), "all_gather", "bf16", 12);
  const auto before = page.read();
  const auto exit =
      std::get<Exit>(there_and_back(Exit{true, 9, true, 42, before, 43, {"the", "end"}, {"NVRM: Xid"}}));
  EXPECT_TRUE(exit.signaled);
  EXPECT_EQ(exit.status, 9);
  EXPECT_TRUE(exit.ended_by_guard);
  EXPECT_EQ(exit.at_ns, 42);
  EXPECT_EQ(exit.now_ns, 43);
  EXPECT_EQ(exit.last_lines, (std::vector<std::string>{"the", "end"}));
  EXPECT_EQ(exit.kernel, (std::vector<std::string>{"NVRM: Xid"}));
  const auto& after = exit.page;
  EXPECT_EQ(after.stage, before.stage);
  EXPECT_EQ(after.changed_ns, before.changed_ns);
  EXPECT_EQ(after.ticks, 1);
  EXPECT_EQ(after.error, "3 is not 4");
  EXPECT_EQ(after.error_code, ErrorCode::bad_shape);
  ASSERT_EQ(after.collectives.size(), 1u);
  EXPECT_EQ(after.collectives[0].op, "all_gather");
  EXPECT_TRUE(after.collectives[0].running);
  const auto state = std::get<State>(there_and_back(State{before, 44, true, "state D"}));
  EXPECT_EQ(state.page.total_steps, 9);
  EXPECT_EQ(state.now_ns, 44);
  EXPECT_TRUE(state.stopped);
  EXPECT_EQ(state.stuck, "state D");
}

TEST(RankReport, CarriesWhatNcclSays) {
  EXPECT_EQ(std::get<Diagnosis>(there_and_back(Diagnosis{{"Errors", "#0-0"}})).lines,
            (std::vector<std::string>{"Errors", "#0-0"}));
}

TEST(RankReport, CarriesANote) {
  EXPECT_EQ(std::get<Note>(there_and_back(Note{"{\"a\": 1}"})).text, "{\"a\": 1}");
}

TEST(RankReport, CarriesEveryOrder) {
  for (const auto order : {Order::beat, Order::stop, Order::end, Order::kill, Order::pause, Order::resume,
                           Order::leave, Order::ask}) {
    std::string line = encode(order);
    line.pop_back();
    EXPECT_EQ(decode_order(line), order);
  }
}

TEST(RankReport, RefusesNonsense) {
  for (const char* line :
       {"", "hello", "{}", "[1]", "{\"hello\": \"x\"}", "{\"exit\": 1}", "{\"state\": {}}"})
    EXPECT_THROW(decode_report(line), Error) << line;
  for (const char* line : {"", "{}", "{\"order\": \"dance\"}"})
    EXPECT_THROW(decode_order(line), Error) << line;
}

TEST(LineCutter, FindsLinesInAnyPieces) {
  const std::string text = "one\ntwo\n\nthree";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    LineCutter cutter;
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size(); at += piece)
      cutter.feed(text.data() + at, std::min(piece, text.size() - at),
                  [&](std::string line) { lines.push_back(line); });
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", ""}));
    EXPECT_EQ(cutter.pending(), "three");
  }
}

}  // namespace
}  // namespace trireme::plan
