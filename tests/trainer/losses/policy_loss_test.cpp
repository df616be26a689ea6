#include "trainer/losses/policy_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones_like.h>

#include "runtime/base/error.h"

namespace trireme::losses {
namespace {

at::Tensor tensor(std::vector<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat).clone();
}

// One token's loss, written out from the papers' formulas in plain arithmetic.
double token_loss(double log_ratio, double advantage, const PolicyLossConfig& config) {
  const double ratio = std::exp(std::min(20.0, std::max(-20.0, log_ratio)));
  const double clipped = std::min(1 + config.clip_ratio_high, std::max(1 - config.clip_ratio_low, ratio));
  const double objective = std::min(ratio * advantage, clipped * advantage);
  return advantage < 0 ? -std::max(objective, config.clip_ratio_c * advantage) : -objective;
}

TEST(PolicyLoss, FollowsTheFormulaForEveryCombinationOfRatioAndAdvantage) {
  PolicyLossConfig config;
  config.clip_ratio_low = 0.2;
  config.clip_ratio_high = 0.28;
  std::vector<float> fresh, old, advantages, weights;
  double expected = 0;
  for (const double log_ratio : {-30.0, -2.0, -0.3, -0.05, 0.0, 0.05, 0.24, 0.3, 1.5, 30.0})
    for (const double advantage : {-2.0, -0.5, 0.0, 0.7, 3.0}) {
      if (log_ratio > 20 && advantage < 0)
        continue;  // bounded by the dual clip, tested below; the plain sum would drown
      old.push_back(-1.0f);
      fresh.push_back(static_cast<float>(-1.0 + log_ratio));
      advantages.push_back(static_cast<float>(advantage));
      weights.push_back(0.01f * static_cast<float>(weights.size() + 1));
      expected += weights.back() * token_loss(static_cast<double>(fresh.back()) + 1.0, advantage, config);
    }
  const auto result =
      policy_loss(tensor(fresh), tensor(old), tensor(advantages), tensor(weights), tensor(weights), config);
  EXPECT_NEAR(result.loss.item<double>() / expected, 1.0, 1e-5);
}

TEST(PolicyLoss, BoundsTheLossOfABadTokenThatBecameLikely) {
  PolicyLossConfig config;
  const auto result =
      policy_loss(tensor({9.0f}), tensor({0.0f}), tensor({-2.0f}), tensor({1.0f}), tensor({1.0f}), config);
  EXPECT_NEAR(result.loss.item<double>(), 2.0 * config.clip_ratio_c, 1e-6);
  EXPECT_DOUBLE_EQ(result.clipped_lower, 1.0);
}

TEST(PolicyLoss, PassesNoGradientWhereTheClipHolds) {
  PolicyLossConfig config;
  at::Tensor fresh = tensor({0.5f, 0.1f, -0.5f, -0.5f}).requires_grad_(true);
  const at::Tensor old = tensor({0, 0, 0, 0}), advantages = tensor({1, 1, -1, 1}),
                   weights = at::ones_like(old);
  const auto result = policy_loss(fresh, old, advantages, weights, weights * 0.25, config);
  result.loss.backward();
  const at::Tensor gradient = fresh.grad();
  EXPECT_EQ(gradient[0].item<double>(), 0.0);                      // ratio beyond 1.2, good token
  EXPECT_NEAR(gradient[1].item<double>(), -std::exp(0.1), 1e-6);   // inside
  EXPECT_EQ(gradient[2].item<double>(), 0.0);                      // below 0.8, bad token
  EXPECT_NEAR(gradient[3].item<double>(), -std::exp(-0.5), 1e-6);  // below 0.8, good token: pulled back
  EXPECT_NEAR(result.clipped, 0.5, 1e-6);
  EXPECT_NEAR(result.kl_to_old, (-0.5 - 0.1 + 0.5 + 0.5) / 4, 1e-6);
}

TEST(TokenWeight, SumsToTheModesTotalForAnyLengths) {
  const std::vector<int64_t> lengths{3, 1, 8};
  const BatchTotals totals{3, 12, 10};
  const auto sum = [&](const char* mode) {
    double result = 0;
    for (const int64_t length : lengths)
      result += static_cast<double>(length) * token_weight(mode, length, totals);
    return result;
  };
  EXPECT_DOUBLE_EQ(sum("token-mean"), 1.0);
  EXPECT_DOUBLE_EQ(sum("seq-mean-token-mean"), 1.0);
  EXPECT_DOUBLE_EQ(sum("seq-mean-token-sum"), 4.0);       // mean length
  EXPECT_DOUBLE_EQ(sum("seq-mean-token-sum-norm"), 0.4);  // ... by the longest allowed
  EXPECT_THROW(token_weight("mean", 1, totals), Error);
}

TEST(KlEstimate, FollowsItsDefinitions) {
  const at::Tensor fresh = tensor({-1.0f, -2.0f, -50.0f}), reference = tensor({-1.5f, -1.0f, -1.0f});
  EXPECT_NEAR(kl_estimate(fresh, reference, "kl")[0].item<double>(), 0.5, 1e-6);
  EXPECT_NEAR(kl_estimate(fresh, reference, "abs")[1].item<double>(), 1.0, 1e-6);
  EXPECT_NEAR(kl_estimate(fresh, reference, "mse")[1].item<double>(), 0.5, 1e-6);
  EXPECT_NEAR(kl_estimate(fresh, reference, "low_var_kl")[0].item<double>(), std::exp(-0.5) + 0.5 - 1, 1e-6);
  EXPECT_NEAR(kl_estimate(fresh, reference, "low_var_kl")[1].item<double>(), std::exp(1.0) - 1.0 - 1, 1e-6);
  EXPECT_DOUBLE_EQ(kl_estimate(fresh, reference, "low_var_kl")[2].item<double>(), 10.0);  // clamped
  EXPECT_THROW((void)kl_estimate(fresh, reference, "k9"), Error);
}

}  // namespace
}  // namespace trireme::losses
