// Processes that judge: what they may do wrong, and what becomes of the responses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "trainer/rewards/scorer.h"

namespace trireme::rewards {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ScorerPoolTest : public testing::Test {
 protected:
  ScorerPoolTest() {
    std::signal(SIGPIPE, SIG_IGN);  // as in every program of ours
    config_.function.name = "compute_score";
    config_.scorer.num_workers = 2;
    config_.scorer.timeout_s = 60;
    config_.scorer.retries = 1;
    config_.scorer.on_failure = "default";
    config_.scorer.default_score = -7;
    folder_ = fs::temp_directory_path() / ("scorer_pool_test." + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~ScorerPoolTest() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  /// A function whose body is `body`.
  std::unique_ptr<Scorer> scorer(const std::string& body, const std::string& head = "") {
    return start(head + "\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None, **more):\n" +
                 body);
  }
  std::unique_ptr<Scorer> start(const std::string& text) {
    config_.function.path = file("reward.py", text);
    return make_scorer(config_, *rule_);
  }
  std::string failure_of(Scorer& scorer) {
    try {
      scorer.wait_until_ready();
      scorer.score({"s", "r", "g", ""});
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }
  /// Each of these, its number being its response.
  std::vector<Score> scores(Scorer& scorer, int count) {
    std::vector<int64_t> tickets;
    for (int i = 0; i < count; ++i) tickets.push_back(scorer.submit({"s", std::to_string(i), "g", ""}));
    std::vector<Score> all;
    for (const int64_t ticket : tickets) all.push_back(scorer.wait(ticket));
    return all;
  }
  void expect_all_but(const std::set<int>& bad, const std::vector<Score>& scores) {
    for (size_t i = 0; i < scores.size(); ++i)
      EXPECT_EQ(scores[i].value, bad.contains(static_cast<int>(i)) ? -7.0 : static_cast<double>(i)) << i;
  }

  RewardConfig config_;
  std::unique_ptr<Reward> rule_ = make_reward({.name = "exact_match"});
  fs::path folder_;
};

TEST_F(ScorerPoolTest, CallsTheFunctionAsVerlDoes) {
  config_.function.kwargs = R"({"bonus": 0.5})";
  const auto judge = start(R"(
def compute_score(data_source, solution_str, ground_truth, extra_info=None, bonus=0):
    assert data_source == "openai/gsm8k", data_source
    return {"score": (solution_str == ground_truth) + bonus + extra_info["level"],
            "acc": solution_str == ground_truth, "length": len(solution_str), "note": "text"}
)");
  judge->wait_until_ready();
  const Score right = judge->score({"openai/gsm8k", "a\nb \"q\" é", "a\nb \"q\" é", R"({"level": 10, "x": [1]})"});
  EXPECT_EQ(right.value, 11.5);
  EXPECT_TRUE(right.correct);
  EXPECT_EQ(right.extras, (std::map<std::string, double>{{"acc", 1.0}, {"length", 9.0}}));
  const Score wrong = judge->score({"openai/gsm8k", "a", "b", R"({"level": 0})"});
  EXPECT_EQ(wrong.value, 0.5);
  EXPECT_FALSE(wrong.correct);
  const ScorerStats stats = judge->take_stats();
  EXPECT_EQ(stats.scores, 2);
  EXPECT_EQ(stats.errors + stats.timeouts + stats.ended_processes + stats.defaults, 0);
}

TEST_F(ScorerPoolTest, TakesWhateverCountsAsANumber) {
  const auto judge = scorer(R"(
    class Scalar:
        def item(self): return 2.5
    return {"float": 1.5, "int": 3, "bool": True, "scalar": Scalar(), "tuple": (4.0, "why")}[solution_str]
)");
  EXPECT_EQ(judge->score({"", "float", "", ""}).value, 1.5);
  EXPECT_EQ(judge->score({"", "int", "", ""}).value, 3);
  EXPECT_EQ(judge->score({"", "bool", "", ""}).value, 1);
  EXPECT_TRUE(judge->score({"", "bool", "", ""}).correct);  // from reward.correct on
  EXPECT_EQ(judge->score({"", "scalar", "", ""}).value, 2.5);
  EXPECT_EQ(judge->score({"", "tuple", "", ""}).value, 4);
}

TEST_F(ScorerPoolTest, RefusesWhatIsNoNumber) {
  config_.scorer.retries = 0;
  const auto judge = scorer(R"(
    return {"none": None, "text": "1", "nan": float("nan"), "dict": {"reward": 1}, "list": []}[solution_str]
)");
  for (const char* kind : {"none", "text", "nan", "dict", "list"})
    EXPECT_EQ(judge->score({"", kind, "", ""}).value, -7) << kind;
  EXPECT_EQ(judge->take_stats().errors, 5);
}

TEST_F(ScorerPoolTest, TextThatIsNoUtf8IsJudgedAllTheSame) {
  const auto judge = scorer("    return len(solution_str)");
  EXPECT_EQ(judge->score({"", "a\xc3", "", ""}).value, 2);
}

TEST_F(ScorerPoolTest, GoesOnAfterAnException) {
  const auto judge = scorer("    if int(solution_str) % 50 == 3: raise ValueError('no such answer')\n"
                            "    return int(solution_str)");
  expect_all_but({3, 53}, scores(*judge, 100));
  const ScorerStats stats = judge->take_stats();
  EXPECT_EQ(stats.errors, 4);  // each tried twice
  EXPECT_EQ(stats.defaults, 2);
  EXPECT_EQ(stats.ended_processes, 0);
}

TEST_F(ScorerPoolTest, StopsTheRunWithTheReasonWhereAskedTo) {
  config_.scorer.on_failure = "stop";
  const auto judge = scorer("    raise KeyError('answer')");
  const std::string message = failure_of(*judge);
  EXPECT_THAT(message, HasSubstr("failed 2 times on one response: KeyError: 'answer'"));
  EXPECT_THAT(message, HasSubstr("reward.scorer.on_failure"));
}

TEST_F(ScorerPoolTest, TriesAgainWhatFailedByChance) {
  const auto judge = scorer("    import os\n    mark = '" + (folder_ / "seen").string() +
                            "' + solution_str\n"
                            "    if not os.path.exists(mark):\n        open(mark, 'w').close()\n"
                            "        raise ConnectionError('busy')\n    return int(solution_str)");
  expect_all_but({}, scores(*judge, 6));
  EXPECT_EQ(judge->take_stats().errors, 6);
}

// Of several that a fast process has before it, only the one at fault is charged.
TEST_F(ScorerPoolTest, GoesOnAfterACrash) {
  for (const char* end : {"os._exit(3)", "sys.exit(0)", "os.kill(os.getpid(), signal.SIGSEGV)",
                          "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(0, signal.SIGKILL)"}) {
    const auto judge = scorer(std::string("    if int(solution_str) in (20, 77): ") + end +
                                  "\n    return int(solution_str)",
                              "import os, signal, sys");
    expect_all_but({20, 77}, scores(*judge, 120));
    EXPECT_EQ(judge->take_stats().ended_processes, 4) << end;
  }
}

TEST_F(ScorerPoolTest, EndsWhatTakesTooLong) {
  config_.scorer.timeout_s = 0.4;
  config_.scorer.retries = 0;
  for (const char* endless : {"time.sleep(1000)", "signal.pthread_sigmask(signal.SIG_BLOCK, [15]); time.sleep(1000)",
                              "exec('while True: pass')"}) {
    const auto judge = scorer(std::string("    if int(solution_str) == 5: ") + endless + "\n    return int(solution_str)",
                              "import signal, time");
    expect_all_but({5}, scores(*judge, 30));
    EXPECT_EQ(judge->take_stats().timeouts, 1) << endless;
  }
}

TEST_F(ScorerPoolTest, WhatItPrintsDoesNotDisturb) {
  const auto judge = scorer(R"(
    print('{"id": 0, "score": 99}')
    sys.stdout.flush()
    os.write(1, b'{"id": 1, "score": 99}\n')
    sys.stderr.write("x" * 100000 + "\n")
    assert sys.stdin.read() == ""
    return int(solution_str))",
                            "import os, sys");
  expect_all_but({}, scores(*judge, 60));
}

TEST_F(ScorerPoolTest, WhatItForksDoesNotDisturbAndIsGoneInTheEnd) {
  const fs::path pids = folder_ / "pids";
  auto judge = scorer("    pid = os.fork()\n"
                      "    if pid == 0:\n        time.sleep(1000)\n"
                      "    open('" + pids.string() + "', 'a').write(f'{pid}\\n')\n    return int(solution_str)",
                      "import os, time");
  expect_all_but({}, scores(*judge, 4));
  judge.reset();
  std::ifstream list(pids);
  int count = 0;
  for (int pid = 0; list >> pid; ++count) {
    // Killed with its group; whoever adopts orphans may not have buried it yet.
    std::string state = "gone";
    for (int i = 0; i < 100; ++i) {
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string id, name;
      if (!(stat >> id >> name >> state) || state == "Z") break;
      ::usleep(20000);
      state = "gone";
    }
    EXPECT_TRUE(::kill(pid, 0) != 0 || state == "Z") << pid << " " << state;
  }
  EXPECT_EQ(count, 4);
}

TEST_F(ScorerPoolTest, ALeakEndsAProcessAndNoMore) {
  config_.scorer.memory_limit_mb = 300;
  const auto judge = scorer("    leak.append(bytearray(40 << 20))\n    return int(solution_str)", "leak = []");
  expect_all_but({}, scores(*judge, 40));
  EXPECT_GT(judge->take_stats().ended_processes, 0);
  const auto hog = scorer("    return len(bytearray(1 << 30))");
  EXPECT_EQ(hog->score({"", "1", "", ""}).value, -7);
}

TEST_F(ScorerPoolTest, RunsManyCallsOfAnAsyncFunctionAtOnce) {
  config_.scorer.num_workers = 1;
  config_.scorer.max_concurrent = 50;
  config_.scorer.timeout_s = 2;
  config_.scorer.retries = 0;
  const auto judge = start(R"(
import asyncio
running = most = 0
async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    global running, most
    running += 1
    most = max(most, running)
    await asyncio.sleep(100 if solution_str == "7" else 0.2)
    running -= 1
    if solution_str == "8": raise ValueError("eight")
    return {"score": int(solution_str), "most": most}
)");
  const auto all = scores(*judge, 50);
  expect_all_but({7, 8}, all);
  EXPECT_EQ(all[49].extras.at("most"), 50);
  const ScorerStats stats = judge->take_stats();
  EXPECT_EQ(stats.timeouts, 1);
  EXPECT_EQ(stats.errors, 1);
  EXPECT_EQ(stats.ended_processes, 0);
}

TEST_F(ScorerPoolTest, AnAsyncFunctionThatBlocksIsEndedAsAWhole) {
  config_.scorer.timeout_s = 0.3;
  config_.scorer.retries = 2;
  const auto judge = start(R"(
import time
async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if solution_str == "3": time.sleep(1000)
    return int(solution_str)
)");
  expect_all_but({3}, scores(*judge, 8));
}

TEST_F(ScorerPoolTest, SaysWhyAFunctionCannotBeLoaded) {
  EXPECT_THAT(failure_of(*start("import no_such_module_anywhere")), HasSubstr("No module named 'no_such_module_anywhere'"));
  EXPECT_THAT(failure_of(*start("def compute_score(:")), HasSubstr("SyntaxError"));
  EXPECT_THAT(failure_of(*start("def compute_scores(): pass")), HasSubstr("has no function compute_score; it has compute_scores"));
  EXPECT_THAT(failure_of(*start("compute_score = 3")), HasSubstr("is no function, but int"));
  EXPECT_THAT(failure_of(*start("def compute_score(a, b): return 1")), HasSubstr("it takes (a, b)"));
  EXPECT_THAT(failure_of(*start("import sys; sys.exit(4)")), HasSubstr("SystemExit: 4"));
  EXPECT_THAT(failure_of(*start("import os; os._exit(4)")), HasSubstr("ended with exit status 4 before it judged anything, 3 times"));
  config_.function.python = "/no/such/python";
  try {
    start("def compute_score(): pass");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("/no/such/python cannot be started: No such file"));
  }
}

TEST_F(ScorerPoolTest, ImportsWhatLiesBesideTheFile) {
  file("beside.py", "def worth(text): return 2 * int(text)");
  EXPECT_EQ(scorer("    from beside import worth\n    return worth(solution_str)")->score({"", "21", "", ""}).value, 42);
}

TEST_F(ScorerPoolTest, AProgramMayJudge) {
  config_.command = {"sh", "-c", R"(while read -r line; do
      echo noise; id=${line#*:}; echo "{\"id\": ${id%%,*}, \"score\": ${#line}, \"lines\": 1}"; done)"};
  const auto judge = make_scorer(config_, *rule_);
  judge->wait_until_ready();
  const Score shorter = judge->score({"s", "1", "g", ""}), longer = judge->score({"s", "1234", "g", ""});
  EXPECT_EQ(longer.value, shorter.value + 3);
  EXPECT_EQ(shorter.extras.count("lines"), 1u);
  config_.command = {"false"};
  config_.scorer.on_failure = "stop";
  EXPECT_THAT(failure_of(*make_scorer(config_, *rule_)), HasSubstr("ended with exit status 1"));
}

TEST_F(ScorerPoolTest, ScorersAreNoRanks) {
  ::setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  ::setenv("PMIX_RANK", "3", 1);
  EXPECT_EQ(scorer("    import os\n    return sum(k.startswith(('OMPI_', 'PMIX_', 'TRIREME_')) for k in os.environ)")
                ->score({"", "", "", ""})
                .value,
            0);
  EXPECT_EQ(scorer("    import os\n    return int(os.environ['OMP_NUM_THREADS'])")->score({"", "", "", ""}).value, 1);
}

TEST_F(ScorerPoolTest, HearsItsJournalBeforeItAsks) {
  config_.function.path = file("reward.py", "import random\ndef compute_score(**x): return {'score': random.random(), 'more': 2}");
  const std::string folder = folder_ / "journal";
  const auto values = [&](int64_t step, const std::vector<std::string>& responses, const std::string& writer,
                          int64_t replayed) {
    const auto judge = make_scorer(config_, *rule_, {.journal = folder, .writer = writer});
    std::vector<int64_t> tickets;
    for (size_t i = 0; i < responses.size(); ++i)
      tickets.push_back(judge->submit({"s", responses[i], "g", "", 0, {step, std::to_string(i) + "/0"}}));
    std::vector<double> result;
    for (const int64_t ticket : tickets) {
      const Score score = judge->wait(ticket);
      EXPECT_EQ(score.extras.at("more"), 2);
      result.push_back(score.value);
    }
    EXPECT_EQ(judge->take_stats().replayed, replayed);
    return result;
  };
  const auto first = values(7, {"a", "b\xff", "c"}, "rank_0", 0);
  EXPECT_EQ(values(7, {"a", "b\xff", "c"}, "rank_1", 3), first);
  const auto other = values(7, {"a", "another", "c"}, "rank_0", 2);  // that one is judged anew
  EXPECT_EQ(other[0], first[0]);
  EXPECT_NE(other[1], first[1]);
  EXPECT_NE(values(8, {"a"}, "rank_0", 0)[0], first[0]);   // another step
  EXPECT_NE(values(-1, {"a"}, "rank_0", 0)[0], first[0]);  // no step's: not journaled
  EXPECT_NE(values(-1, {"a"}, "rank_0", 0)[0], first[0]);
  // Half a line, as a run leaves it that was ended while it wrote.
  file("journal/step_9.rank_3.jsonl", "{\"name\": \"0/0\", \"respon");
  const auto whole = values(9, {"a"}, "rank_0", 0);
  EXPECT_EQ(values(9, {"a"}, "rank_0", 1), whole);
}

TEST_F(ScorerPoolTest, RulesAreScorersToo) {
  const auto judge = rule_scorer(*rule_);
  const int64_t first = judge->submit({"", "a", "a", ""}), second = judge->submit({"", "b", "a", ""});
  EXPECT_FALSE(judge->wait(second).correct);
  EXPECT_TRUE(judge->wait(first).correct);
  EXPECT_EQ(judge->take_stats().scores, 0);
}

}  // namespace
}  // namespace trireme::rewards
