#include "trainer/algorithms/advantages.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::algorithms {
namespace {

TEST(GrpoAdvantages, CentreAndScaleAGroup) {
  const std::vector<double> rewards{1, 0, 0, 1};
  const double std = std::sqrt(4 * 0.25 / 3);
  const auto advantages = grpo_advantages(rewards, true);
  EXPECT_NEAR(advantages[0], 0.5 / (std + 1e-6), 1e-12);
  EXPECT_NEAR(advantages[1], -0.5 / (std + 1e-6), 1e-12);
}

TEST(GrpoAdvantages, AreZeroWhereAllSamplesAreEqual) {
  for (const double advantage : grpo_advantages(std::vector<double>(5, 0.3), true))
    EXPECT_NEAR(advantage, 0.0, 1e-9);
}

TEST(GrpoAdvantages, KeepTheRewardOfALoneSample) {
  EXPECT_NEAR(grpo_advantages(std::vector<double>{0.7}, true)[0], 0.7, 1e-5);
  EXPECT_DOUBLE_EQ(grpo_advantages(std::vector<double>{0.7}, false)[0], 0.7);
}

TEST(GrpoAdvantages, WithoutStdOnlyCentre) {
  EXPECT_DOUBLE_EQ(grpo_advantages(std::vector<double>{3, 1}, false)[0], 1.0);
}

}  // namespace
}  // namespace trireme::algorithms
