#include "trainer/algorithms/rollout_correction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"

namespace trireme::algorithms {
namespace {

using Mask = std::vector<uint8_t>;

const std::vector<float> kRollout{-1.0F, -1.0F, -1.0F, -1.0F};
// Log-ratios 0, 0.5, 1, -1.
const std::vector<float> kOld{-1.0F, -0.5F, 0.0F, -2.0F};

Mask rejected(const std::string& names, const std::string& thresholds, Mask mask = {1, 1, 1, 1}) {
  reject(kOld, kRollout, read_rejections(names, thresholds), mask);
  return mask;
}

std::vector<float> weights(const std::string& over, double high, double low, Mask mask = {1, 1, 1, 1}) {
  RolloutCorrection config;
  config.rollout_is = over;
  config.rollout_is_threshold = high;
  config.rollout_is_threshold_low = low;
  return importance_weights(kOld, kRollout, mask, config);
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
}

TEST(ImportanceWeights, AreTruncatedByToken) {
  expect_near(weights("token", 2.0, 0.0), {1.0, std::exp(0.5), 2.0, std::exp(-1.0)});
}
TEST(ImportanceWeights, AreZeroOutsideTwoBounds) {
  expect_near(weights("token", 2.0, 0.5), {1.0, std::exp(0.5), 0.0, 0.0});
}
TEST(ImportanceWeights, AreTheProductOverAResponse) {
  expect_near(weights("sequence", 5.0, 0.0), std::vector<double>(4, std::exp(0.5)));
  expect_near(weights("sequence", 1.2, 0.0), std::vector<double>(4, 1.2));
  expect_near(weights("sequence", 1.2, 0.5), std::vector<double>(4, 0.0));
  expect_near(weights("sequence", 5.0, 0.0, {1, 1, 0, 0}), std::vector<double>(4, std::exp(0.5)));
}
TEST(ImportanceWeights, AreNoneWhereTheyAreOff) {
  EXPECT_TRUE(weights("none", 2.0, 0.0).empty());
}
TEST(ImportanceWeights, StayFiniteWhereProbabilitiesVanish) {
  RolloutCorrection config;
  config.rollout_is = "token";
  config.rollout_is_threshold = 1e30;
  const std::vector<float> old{0.0F}, rollout{-500.0F};
  EXPECT_NEAR(importance_weights(old, rollout, Mask{1}, config)[0] / std::exp(20.0), 1.0, 1e-6);
}

TEST(Reject, LooksAtTokens) {
  EXPECT_EQ(rejected("token_k1", "0.5_2.0"), (Mask{1, 1, 0, 0}));  // -l within ln 0.5 .. ln 2
  EXPECT_EQ(rejected("token_k1", "2.0"), (Mask{1, 1, 0, 0}));      // its inverse is the lower bound
  EXPECT_EQ(rejected("token_k1", "0.5_3.0"), (Mask{1, 1, 0, 1}));
  EXPECT_EQ(rejected("token_k2", "0.2"), (Mask{1, 1, 0, 0}));
  EXPECT_EQ(rejected("token_k3", "0.5"), (Mask{1, 1, 0, 1}));  // exp(1) - 2 = 0.72, exp(-1) = 0.37
  EXPECT_EQ(rejected("token_k1, token_k2", "0.5_3.0,0.2"), (Mask{1, 1, 0, 0}));
}
TEST(Reject, LooksAtWholeResponses) {
  const Mask all{1, 1, 1, 1}, none{0, 0, 0, 0};
  EXPECT_EQ(rejected("seq_sum_k1", "0.5_2.0"), all);   // -0.5
  EXPECT_EQ(rejected("seq_sum_k1", "0.7_2.0"), none);  // ln 0.7 = -0.36
  EXPECT_EQ(rejected("seq_mean_k1", "0.8_2.0"), all);  // -0.125, ln 0.8 = -0.22
  EXPECT_EQ(rejected("seq_mean_k2", "0.282"), all);    // (0.125 + 0.5 + 0.5) / 4 = 0.28125
  EXPECT_EQ(rejected("seq_mean_k2", "0.281"), none);
  EXPECT_EQ(rejected("seq_sum_k2", "1.2"), all);
  EXPECT_EQ(rejected("seq_max_k2", "0.5"), all);
  EXPECT_EQ(rejected("seq_max_k3", "0.7"), none);                              // exp(1) - 2
  EXPECT_EQ(rejected("seq_max_k3", "0.7", {1, 1, 0, 1}), (Mask{1, 1, 0, 1}));  // masked tokens do not count
}
TEST(Reject, LeavesAResponseWithoutTokensAlone) {
  EXPECT_EQ(rejected("seq_mean_k1", "0.9_1.1", {0, 0, 0, 0}), (Mask{0, 0, 0, 0}));
}

TEST(ReadRejections, SaysWhatIsWrong) {
  EXPECT_TRUE(read_rejections("", "").empty());
  const auto message = [](const std::string& names, const std::string& thresholds) {
    try {
      read_rejections(names, thresholds);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("token_k4", "2").find("'token_k4' is unknown"), std::string::npos);
  EXPECT_NE(message("seq_max_k1", "2").find("'seq_max_k1' is unknown"), std::string::npos);
  EXPECT_NE(message("token_k1,token_k2,seq_sum_k1", "2,3").find("names 3 criteria"), std::string::npos);
  EXPECT_NE(message("token_k2", "1_2").find("takes one"), std::string::npos);
  EXPECT_NE(message("token_k1", "").find("is not a number above 0"), std::string::npos);
  EXPECT_NE(message("token_k1", "x_2").find("'x' is not a number"), std::string::npos);
  EXPECT_NE(message("token_k1", "-1_2").find("'-1' is not a number above 0"), std::string::npos);
  EXPECT_NE(message("token_k1", "3_2").find("lower bound above"), std::string::npos);
}

}  // namespace
}  // namespace trireme::algorithms
