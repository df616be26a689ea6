#include "trainer/steps/credit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/comm/local_communicator.h"

namespace trireme::steps {
namespace {

Sample sample(std::vector<float> sampled, std::vector<float> old, std::vector<float> reference,
              double score) {
  Sample result;
  result.tokens.assign(sampled.size(), 1);
  result.rollout_log_probs = std::move(sampled);
  result.old_log_probs = std::move(old);
  result.ref_log_probs = std::move(reference);
  result.score = score;
  return result;
}

// Groups of two prompts on one rank.
class Credit : public testing::Test {
 protected:
  Credit() {
    groups_.resize(2);
    groups_[0].samples = {sample({-1, -2}, {-1, -2}, {-1.5F, -2}, 1.0), sample({-1}, {-1}, {-1}, 0.0)};
    groups_[1].id = 1;
    groups_[1].samples = {sample({-1, -1, -1}, {-1, -1, -1}, {-1, -1, -3}, 0.5), sample({}, {}, {}, 0.0)};
  }
  void assign() { assign_credit(groups_, config_, kl_, world_.communicator(0), metrics_); }

  algorithms::AlgorithmConfig config_;
  comm::LocalWorld world_{1};
  algorithms::KlController kl_{{"adaptive", 0.1, 100, 1.0}};
  StepMetrics metrics_;
  std::vector<Group> groups_;
};

TEST_F(Credit, TakesKlOffEachTokensReward) {
  config_.adv_estimator = "remax";
  config_.use_kl_in_reward = true;
  groups_[0].greedy_score = 0.25;
  assign();
  const auto& first = groups_[0].samples[0];
  EXPECT_NEAR(first.reward, 1.0 - 0.1 * 0.5, 1e-7);  // log-probabilities -1 and -1.5 on the first token
  ASSERT_EQ(first.advantages.size(), 2U);
  EXPECT_NEAR(first.advantages[0], 0.95 - 0.25, 1e-6);
  EXPECT_NEAR(first.advantages[1], 1.0 - 0.25, 1e-6);
  EXPECT_NEAR(groups_[1].samples[0].advantages[0], 0.5 - 0.1 * 2.0, 1e-6);
  EXPECT_TRUE(groups_[1].samples[1].advantages.empty());
  const auto metrics = metrics_.reduce(world_.communicator(0));
  const double kl = (0.25 + 0.0 + 2.0 / 3.0 + 0.0) / 4;  // of responses, each by its tokens
  EXPECT_NEAR(metrics.at("actor/reward_kl_penalty"), kl, 1e-7);
  EXPECT_EQ(metrics.at("actor/reward_kl_penalty_coeff"), 0.1);
  EXPECT_NEAR(kl_.coefficient(), 0.1 * (1 - 0.2 * 4 / 100), 1e-12);  // far below the target
}

TEST_F(Credit, LeavesTheWeightAloneWhereKlIsNotInTheReward) {
  assign();
  EXPECT_EQ(kl_.coefficient(), 0.1);
  EXPECT_EQ(groups_[0].samples[0].reward, 1.0);
  EXPECT_NEAR(groups_[0].samples[0].advantages[1], 0.5 / (std::sqrt(0.5) + 1e-6), 1e-6);
}

TEST_F(Credit, TellsTheCriticWhatItsValuesShouldHaveBeen) {
  config_.adv_estimator = "gae";
  groups_[0].samples[0].values = {0.5F, 0.25F};
  groups_[0].samples[1].values = {0.1F};
  groups_[1].samples[0].values = {0, 0, 0};  // and none of a response without tokens
  assign();
  EXPECT_EQ(groups_[0].samples[0].returns, (std::vector<float>{1, 1}));
  EXPECT_FLOAT_EQ(groups_[0].samples[1].returns[0], 0.0F);
  EXPECT_EQ(groups_[1].samples[0].returns, (std::vector<float>{0.5F, 0.5F, 0.5F}));
  EXPECT_TRUE(groups_[1].samples[1].returns.empty());
  // Returns less values, whitened over the batch.
  const double mean = (0.5 + 0.75 - 0.1 + 3 * 0.5) / 6;
  const double squares =
      4 * (0.5 - mean) * (0.5 - mean) + (0.75 - mean) * (0.75 - mean) + (-0.1 - mean) * (-0.1 - mean);
  EXPECT_NEAR(groups_[0].samples[0].advantages[0], (0.5 - mean) / std::sqrt(squares / 5 + 1e-8), 1e-6);
  const auto metrics = metrics_.reduce(world_.communicator(0));
  EXPECT_NEAR(metrics.at("critic/vf_explained_var"), 1 - (squares / 5) / (0.1416666667 + 1e-5), 1e-6);
  EXPECT_NEAR(metrics.at("critic/values/mean"), 0.85 / 6, 1e-7);
  EXPECT_EQ(metrics.at("critic/returns/max"), 1.0);
}

TEST_F(Credit, OfRejectedTokensIsNotLearned) {
  Sample& one = groups_[0].samples[0];
  one.old_log_probs = {-0.5F, -2.0F};
  config_.rollout_correction.rollout_is = "token";
  config_.rollout_correction.rollout_is_threshold = 1.5;
  assign();
  correct_rollout(groups_, config_.rollout_correction, algorithms::read_rejections("token_k1", "1.2"),
                  metrics_);
  EXPECT_EQ(one.mask, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(one.counted(), 1);
  EXPECT_FLOAT_EQ(one.importance[0], 1.5F);
  EXPECT_FLOAT_EQ(one.importance[1], 1.0F);
  EXPECT_EQ(groups_[1].samples[0].counted(), 3);
  const auto metrics = metrics_.reduce(world_.communicator(0));
  EXPECT_NEAR(metrics.at("rollout_corr/rollout_rs_masked_fraction"), 1.0 / 6, 1e-9);
  EXPECT_NEAR(metrics.at("rollout_corr/rollout_rs_seq_masked_fraction"), 1.0 / 3, 1e-9);
  EXPECT_NEAR(metrics.at("rollout_corr/rollout_is/max"), 1.5, 1e-6);
}

TEST(Group, ComesBackFromItsMessage) {
  Group group;
  group.id = 3;
  group.problem = 5;
  group.prompt = {1, 2};
  group.greedy_score = 0.5;
  group.samples = {sample({-1, -2}, {-1.5F, -2}, {-3, -4}, 0.25)};
  group.samples[0].advantages = {1, 2};
  group.samples[0].values = {0.5F, 0.25F};
  group.samples[0].returns = {3, 4};
  group.samples[0].importance = {0.5F, 1};
  group.samples[0].mask = {0, 1};
  const Group back = unpack(pack(group));
  EXPECT_EQ(back.greedy_score, 0.5);
  EXPECT_EQ(back.samples[0].advantages, group.samples[0].advantages);
  EXPECT_EQ(back.samples[0].values, group.samples[0].values);
  EXPECT_EQ(back.samples[0].returns, group.samples[0].returns);
  EXPECT_EQ(back.samples[0].importance, group.samples[0].importance);
  EXPECT_EQ(back.samples[0].mask, group.samples[0].mask);
  EXPECT_EQ(pack(back), pack(group));
}

}  // namespace
}  // namespace trireme::steps
