#include "trainer/rewards/code_scorer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "runtime/base/error.h"
#include "trainer/rewards/reward.h"

namespace trireme::rewards {
namespace {

const std::string kSums = R"({"inputs": ["1 2", "3 4", "5 6", "0 0"], "outputs": ["3", "7", "11", "0"]})";

std::string fenced(const std::string& code) {
  return "Here it is:\n```python\n" + code + "\n```\n";
}

TEST(CodeScorer, GivesCorrectForAllTestsOrAShareForSome) {
  RewardConfig config{.name = "code", .format_only = 0.1};
  const auto strict = code_scorer(config);
  const std::string right = fenced("print(sum(map(int, input().split())))");
  const std::string half = fenced("a, b = map(int, input().split())\nprint(a + b if a in (0, 1) else 9)");
  const Score all = strict->score({"", right, kSums, "", 0});
  EXPECT_TRUE(all.correct);
  EXPECT_EQ(all.value, 1.0);
  EXPECT_EQ(all.extras.at("tests_passed"), 1.0);
  EXPECT_EQ(strict->score({"", half, kSums, "", 0}).value, 0.1);
  EXPECT_EQ(strict->score({"", "I do not know", kSums, "", 0}).value, 0.0);
  config.code.scoring = "fraction";
  const Score some = code_scorer(config)->score({"", half, kSums, "", 0});
  EXPECT_FALSE(some.correct);
  EXPECT_EQ(some.extras.at("tests_passed"), 0.5);
  EXPECT_DOUBLE_EQ(some.value, 0.1 + 0.9 * 0.5);
}

TEST(CodeScorer, AJournalKeepsItsVerdicts) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("code_journal." + std::to_string(::getpid()));
  RewardConfig config{.name = "code"};
  const auto rule = make_reward(config);
  const auto judge = [&](const std::string& response, int64_t replayed) {
    const auto scorer = make_scorer(config, *rule, {.journal = folder.string()});
    const Score score = scorer->score({"", response, kSums, "", 0, {3, "1/0"}});
    EXPECT_EQ(scorer->take_stats().replayed, replayed);
    return score;
  };
  const std::string right = fenced("print(sum(map(int, input().split())))");
  const Score first = judge(right, 0), again = judge(right, 1);
  EXPECT_TRUE(again.correct);
  EXPECT_EQ(again.value, first.value);
  EXPECT_EQ(again.extras, first.extras);
  EXPECT_EQ(judge(fenced("print(1)"), 0).value, 0.0);
  fs::remove_all(folder);
}

TEST(CodeScorer, JudgesManySideBySide) {
  RewardConfig config{.name = "code"};
  config.code.max_concurrent = 4;
  config.code.timeout_s = 1;
  const auto scorer = code_scorer(config);
  std::vector<int64_t> tickets;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 24; ++i)
    tickets.push_back(scorer->submit({"",
                                      fenced(i % 12 == 5 ? "while True: pass"
                                             : i % 2     ? "print(1)"
                                                         : "print(sum(map(int, input().split())))"),
                                      kSums, "", 0}));
  for (int i = 24; i-- > 0;) {
    const Score score = scorer->wait(tickets[static_cast<size_t>(i)]);
    EXPECT_EQ(score.correct, i % 2 == 0) << i;
    EXPECT_EQ(score.extras.at("tests_timed_out"), i % 12 == 5 ? 1.0 : 0.0) << i;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("24 programs on up to 4 tests each: %.2f s\n", seconds.count());
}

TEST(CodeScorer, TellsOfTestsThatAreNone) {
  const auto scorer = code_scorer({.name = "code"});
  const int64_t ticket = scorer->submit({"apps", "x", "no tests", "", 0});
  EXPECT_THROW((void)scorer->wait(ticket), Error);
  EXPECT_NE(make_reward({.name = "code"})->ground_truth_mistake("apps", "no tests"), "");
}

TEST(CodeScorer, EndsInTheMiddleOfItsWork) {
  RewardConfig config{.name = "code"};
  config.code.timeout_s = 1;
  config.code.max_concurrent = 2;
  const auto scorer = code_scorer(config);
  for (int i = 0; i < 50; ++i) (void)scorer->submit({"", "while True: pass", kSums, "", 0});
}

TEST(MakeScorer, SendsProgramsOfSomeSourcesToTheSandbox) {
  const RewardConfig config{.name = "by_source"};
  const auto rule = make_reward(config);
  const auto scorer = make_scorer(config, *rule);
  const int64_t code =
      scorer->submit({"apps", fenced("print(sum(map(int, input().split())))"), kSums, "", 0});
  const int64_t math = scorer->submit({"math_dapo", "Answer: 5", "6", "", 0});
  const int64_t part = scorer->submit({"taco", fenced("print(3)"), kSums, "", 0});
  EXPECT_EQ(scorer->wait(math).value, -1.0);
  EXPECT_EQ(scorer->wait(part).value, 0.25);
  EXPECT_EQ(scorer->wait(code).value, 1.0);
}

}  // namespace
}  // namespace trireme::rewards
