#include "trainer/algorithms/reward_shaping.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme::algorithms {
namespace {

TEST(OverlongPenalty, FallsLinearlyOverTheBuffer) {
  const OverlongBuffer buffer{true, 40, 0.5};
  EXPECT_EQ(overlong_penalty(1, 100, buffer), 0.0);
  EXPECT_EQ(overlong_penalty(60, 100, buffer), 0.0);  // where the buffer begins
  EXPECT_DOUBLE_EQ(overlong_penalty(61, 100, buffer), -0.5 / 40);
  EXPECT_DOUBLE_EQ(overlong_penalty(80, 100, buffer), -0.25);
  EXPECT_DOUBLE_EQ(overlong_penalty(100, 100, buffer), -0.5);
  EXPECT_EQ(overlong_penalty(100, 100, {}), 0.0);  // off
}

TEST(TellsApart, WantsTwoJudgementsThatDiffer) {
  const auto of = [](std::vector<double> judgements) { return tells_apart(judgements); };
  EXPECT_TRUE(of({0, 0, 1}));
  EXPECT_TRUE(of({1, 0}));
  EXPECT_FALSE(of({1, 1, 1}));
  EXPECT_FALSE(of({0, 0}));
  EXPECT_TRUE(of({0}));
  EXPECT_FALSE(of({}));
}

}  // namespace
}  // namespace trireme::algorithms
