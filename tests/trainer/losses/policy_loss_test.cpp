#include "trainer/losses/policy_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"
#include "tests/trainer/losses/tokens.h"
#include "trainer/losses/kl_estimate.h"

namespace trireme::losses {
namespace {

PolicyLossConfig mode(const std::string& name) {
  PolicyLossConfig config;
  config.loss_mode = name;
  return config;
}

TEST(PolicyLoss, BoundsTheLossOfABadTokenThatBecameLikely) {
  const PolicyLossConfig config;
  const auto result = policy_loss(tokens_of({9.0F}, {0.0F}, {-2.0F}), config);
  EXPECT_NEAR(result.loss.item<double>(), 2.0 * config.clip_ratio_c, 1e-6);
  EXPECT_DOUBLE_EQ(result.metrics.clipped_lower, 1.0);
}

TEST(PolicyLoss, PassesNoGradientWhereTheClipHolds) {
  const PolicyTokens tokens =
      tokens_of({0.5F, 0.1F, -0.5F, -0.5F}, {0, 0, 0, 0}, {1, 1, -1, 1}, {}, {}, "token-sum");
  const auto result = policy_loss(tokens, {});
  result.loss.backward();
  const at::Tensor gradient = tokens.log_probs_N.grad();
  EXPECT_EQ(gradient[0].item<double>(), 0.0);                      // ratio beyond 1.2, good token
  EXPECT_NEAR(gradient[1].item<double>(), -std::exp(0.1), 1e-6);   // inside
  EXPECT_EQ(gradient[2].item<double>(), 0.0);                      // below 0.8, bad token
  EXPECT_NEAR(gradient[3].item<double>(), -std::exp(-0.5), 1e-6);  // below 0.8, good token: pulled back
  EXPECT_NEAR(result.metrics.clipped, 0.5, 1e-6);
  EXPECT_NEAR(result.metrics.kl_to_old, (-0.5 - 0.1 + 0.5 + 0.5) / 4, 1e-6);
}

TEST(PolicyLoss, StaysFiniteWhereProbabilitiesVanish) {
  for (const char* name : kLossModes) {
    const PolicyTokens tokens =
        tokens_of({-500.0F, -1e-6F, -1.0F}, {-1e-6F, -500.0F, -1.0F}, {1, -1, 1}, {1, 2});
    const auto result = policy_loss(tokens, mode(name));
    result.loss.backward();
    EXPECT_TRUE(std::isfinite(result.loss.item<double>())) << name;
    EXPECT_TRUE(tokens.log_probs_N.grad().isfinite().all().item<bool>()) << name;
  }
}

TEST(PolicyLoss, OfMaskedTokensIsNothing) {
  for (const char* name : kLossModes) {
    const PolicyTokens tokens = tokens_of({-1, -2, -3}, {-2, -1, -1}, {1, 2, -1}, {2, 1}, {0, 0, 0});
    const auto result = policy_loss(tokens, mode(name));
    result.loss.backward();
    EXPECT_EQ(result.loss.item<double>(), 0.0) << name;
    EXPECT_EQ(tokens.log_probs_N.grad().abs().sum().item<double>(), 0.0) << name;
  }
}

// Whole responses may be computed apart: weights and shares are those of the whole batch.
TEST(PolicyLoss, OfABatchIsTheSumOverItsMicroBatches) {
  for (const char* name : kLossModes) {
    if (std::string(name).ends_with("_cov")) continue;  // those look at the micro-batch
    const std::string weighing = aggregation_of(mode(name));
    PolicyTokens all = tokens_of({-1, -2, -3, -0.5F, -0.7F}, {-1.2F, -2.1F, -2, -0.4F, -1}, {1, 1, 1, -2, -2},
                                 {3, 2}, {}, weighing);
    const double whole = policy_loss(all, mode(name)).loss.item<double>();
    double parts = 0;
    for (const auto& [from, count] : {std::pair{0, 3}, std::pair{3, 2}}) {
      PolicyTokens part = all;
      for (at::Tensor* x :
           {&part.log_probs_N, &part.old_log_probs_N, &part.advantages_N, &part.weights_N, &part.shares_N})
        *x = x->narrow(0, from, count);
      part.lengths_S = all.lengths_S.narrow(0, from == 0 ? 0 : 1, 1);
      parts += policy_loss(part, mode(name)).loss.item<double>();
    }
    EXPECT_NEAR(parts, whole, 1e-6) << name;
  }
}

TEST(ClipCov, HoldsBackAShareOfEligibleTokensChosenBySeed) {
  std::vector<float> fresh, old, advantages;
  for (int i = 0; i < 100; ++i) {  // half have a covariance of about 1, the others less than 0
    fresh.push_back(i % 2 ? -1.0F : -3.0F);
    old.push_back(fresh.back());
    advantages.push_back(i % 4 < 2 ? (i % 2 ? 1.0F : -1.0F) : (i % 2 ? -1.0F : 1.0F));
  }
  PolicyLossConfig config = mode("clip_cov");
  config.clip_cov_ratio = 0.1;
  config.clip_cov_lb = 0.5;
  const auto held = [&](uint64_t seed) {
    PolicyTokens tokens = tokens_of(fresh, old, advantages);
    tokens.seed = seed;
    const auto result = policy_loss(tokens, config);
    EXPECT_NEAR(result.metrics.clipped, 0.1, 1e-6);
    result.loss.backward();
    std::vector<int64_t> places;
    for (int64_t i = 0; i < 100; ++i)
      if (tokens.log_probs_N.grad()[i].item<double>() == 0.0) places.push_back(i);
    EXPECT_EQ(places.size(), 10U);
    for (const int64_t place : places) EXPECT_LT(place % 4, 2) << "only eligible ones";
    return places;
  };
  EXPECT_EQ(held(1), held(1));
  EXPECT_NE(held(1), held(2));
}

TEST(PolicyLoss, NamesWhatItDoesNotKnow) {
  EXPECT_THROW(policy_loss(tokens_of({-1}, {-1}, {1}), mode("trpo")), Error);
  EXPECT_THROW(kl_estimate(tensor({-1}), tensor({-1}), "k9"), Error);
  EXPECT_THROW(kl_estimate(tensor({-1}), tensor({-1}), "+"), Error);
}

TEST(TokenWeight, SumsToTheModesTotalForAnyLengths) {
  const std::vector<int64_t> lengths{3, 1, 8};
  const BatchTotals totals{3, 12, 10};
  const auto sum = [&](const char* name) {
    double result = 0;
    for (const int64_t length : lengths)
      result += static_cast<double>(length) * token_weight(name, length, totals);
    return result;
  };
  EXPECT_DOUBLE_EQ(sum("token-mean"), 1.0);
  EXPECT_DOUBLE_EQ(sum("token-sum"), 12.0);
  EXPECT_DOUBLE_EQ(sum("seq-mean-token-mean"), 1.0);
  EXPECT_DOUBLE_EQ(sum("seq-mean-token-sum"), 4.0);       // mean length
  EXPECT_DOUBLE_EQ(sum("seq-mean-token-sum-norm"), 0.4);  // ... by the scale
  EXPECT_THROW(token_weight("mean", 1, totals), Error);
}

}  // namespace
}  // namespace trireme::losses
