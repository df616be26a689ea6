#include "launcher/process/restart.h"

#include <gtest/gtest.h>

namespace trireme::process {
namespace {

using namespace std::chrono_literals;

Outcome failed(int rank, const std::string& place, bool may_pass = true) {
  Outcome outcome{.status = 3};
  outcome.failure = Failure{.rank = rank, .status = 3, .what = "was killed by SIGKILL"};
  outcome.may_pass = may_pass;
  outcome.place = place;
  return outcome;
}

TEST(RestartPolicy, LeavesAGoodEndAlone) {
  EXPECT_FALSE(RestartPolicy(3).decide({.status = 0}).again);
  EXPECT_FALSE(RestartPolicy(3).decide({.status = 75, .asked_to_stop = true}).again);
  EXPECT_EQ(RestartPolicy(3).decide({.status = 0}).why, "");
}

TEST(RestartPolicy, StartsAgainAsOftenAsItMay) {
  RestartPolicy policy(2);
  EXPECT_TRUE(policy.decide(failed(0, "grpo step 1")).again);
  EXPECT_TRUE(policy.decide(failed(0, "grpo step 2")).again);
  const auto last = policy.decide(failed(0, "grpo step 3"));
  EXPECT_FALSE(last.again);
  EXPECT_NE(last.why.find("restart 2 of 2"), std::string::npos) << last.why;
}

TEST(RestartPolicy, EndsWhenTheSameRankFailsAtTheSameStepTwice) {
  RestartPolicy policy(9);
  EXPECT_TRUE(policy.decide(failed(1, "grpo step 4")).again);
  EXPECT_TRUE(policy.decide(failed(2, "grpo step 4")).again) << "another rank";
  const auto last = policy.decide(failed(2, "grpo step 4"));
  EXPECT_FALSE(last.again);
  EXPECT_NE(last.why.find("rank 2 failed at grpo step 4 twice"), std::string::npos) << last.why;
}

TEST(RestartPolicy, DoesNotRepeatWhatIsWrongEveryTime) {
  EXPECT_FALSE(RestartPolicy(9).decide(failed(1, "start step 0", false)).again);
}

TEST(RestartPolicy, DoesNothingUnasked) {
  const auto decision = RestartPolicy(0).decide(failed(1, "grpo step 4"));
  EXPECT_FALSE(decision.again);
  EXPECT_EQ(decision.why, "");
}

TEST(RestartPolicy, WaitsLongerWhereNothingMoves) {
  RestartPolicy policy(20);
  EXPECT_EQ(policy.decide(failed(0, "grpo step 4")).wait, 1s);
  EXPECT_EQ(policy.decide(failed(1, "grpo step 4")).wait, 2s);
  EXPECT_EQ(policy.decide(failed(0, "grpo step 4")).wait, 4s);
  EXPECT_EQ(policy.decide(failed(0, "grpo step 5")).wait, 1s) << "steps were done";
  for (int i = 0; i < 10; ++i) EXPECT_LE(policy.decide(failed(i, "grpo step 5")).wait, 60s);
}

TEST(RestartPolicy, TriesAStartThatDidNotComeAbout) {
  Outcome outcome{.status = 4};
  outcome.may_pass = true;
  EXPECT_TRUE(RestartPolicy(1).decide(outcome).again);
}

}  // namespace
}  // namespace trireme::process
