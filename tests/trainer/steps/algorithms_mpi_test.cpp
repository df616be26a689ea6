// Every estimator, loss and correction in a whole step, on two ranks as on one.
#include <gtest/gtest.h>

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "tests/trainer/steps/small_run.h"
#include "trainer/algorithms/estimator_config.h"
#include "trainer/steps/generation.h"
#include "trainer/steps/policy_update.h"

namespace trireme::steps {
namespace {

plan::RankEnv alone() {
  plan::RankEnv env;
  env.rank = 0;
  env.num_ranks = 1;
  return env;
}

struct Outcome {
  observe::Metrics last;
  at::Tensor masters;
  double kl_coefficient = 0.0;
  std::vector<int64_t> taken;
};

// `steps` of a run, with one replica to a rank.
Outcome outcome(const SmallRun& run, const plan::RankEnv& env, int64_t steps, bool inexact = false) {
  const bool critic = algorithms::needs_of(run.algorithm.adv_estimator).values;
  SmallRank rank(run, env, everyone(env.num_ranks, critic));
  if (inexact) rank.models.inexact_because = "this test says so";
  OnlineStep step(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic);
  Outcome result;
  int64_t taken = 0;
  for (int64_t i = 0; i < steps; ++i) {
    result.last = step.run(i, 10, taken);
    taken += step.problems_taken();
    result.taken.push_back(taken);
  }
  result.masters = rank.models.actor_parameters->masters().clone();
  result.kl_coefficient = step.kl_coefficient();
  return result;
}

void expect_the_same(const SmallRun& run, const std::string& name, int64_t steps = 2) {
  const Outcome many = outcome(run, plan::RankEnv::from_environment(), steps),
                one = outcome(run, alone(), steps);
  for (const char* metric :
       {"critic/score/mean", "critic/rewards/mean", "critic/advantages/max", "actor/grad_norm"})
    EXPECT_NEAR(many.last.at(metric), one.last.at(metric), 1e-3 * (1e-3 + std::abs(one.last.at(metric))))
        << name << ", " << metric;
  EXPECT_GT(one.last.at("actor/grad_norm"), 1e-5) << name;
  EXPECT_TRUE(std::isfinite(one.last.at("actor/pg_loss"))) << name;
  EXPECT_EQ(many.kl_coefficient, one.kl_coefficient) << name;
  EXPECT_EQ(many.taken, one.taken) << name;
}

// Random weights are rewarded alike nearly always: KL to another model's makes every reward its own.
SmallRun small_run() {
  SmallRun run;
  run.actor.loss.use_kl_loss = false;
  run.algorithm.use_kl_in_reward = true;
  run.algorithm.kl_ctrl.kl_coef = 0.5;
  run.parallel.reduce = run.critic_parallel.reduce = "exact";
  return run;
}

TEST(Algorithms, EveryEstimatorGivesTheSameOnAnyNumberOfRanks) {
  for (const auto& estimator : algorithms::kEstimators) {
    SmallRun run = small_run();
    run.algorithm.adv_estimator = estimator.name;
    expect_the_same(run, estimator.name);
  }
}

TEST(Algorithms, EveryLossGivesTheSameOnAnyNumberOfRanks) {
  for (const char* mode : losses::kLossModes) {
    SmallRun run = small_run();
    run.actor.loss.loss_mode = mode;
    run.actor.loss.clip_cov_lb = 0.1;
    run.actor.ppo_mini_batch_size = 3;
    expect_the_same(run, mode);
  }
}

TEST(Algorithms, KlInTheRewardAdaptsItsWeight) {
  SmallRun run = small_run();
  run.algorithm.adv_estimator = "reinforce_plus_plus";
  run.algorithm.gamma = 0.95;
  run.algorithm.kl_penalty = "low_var_kl";
  run.algorithm.kl_ctrl = {"adaptive", 0.2, 100, 1e-6};  // every KL is far above the target
  expect_the_same(run, "adaptive");
  const Outcome one = outcome(run, alone(), 2);
  EXPECT_DOUBLE_EQ(one.kl_coefficient, 0.2 * std::pow(1 + 0.2 * 18 / 100, 2));  // 18 responses a step
  EXPECT_LT(one.last.at("critic/rewards/mean"), one.last.at("critic/score/mean"));
  EXPECT_NEAR(one.last.at("actor/reward_kl_penalty_coeff"), 0.2 * (1 + 0.2 * 18 / 100), 1e-12);
}

TEST(Algorithms, DynamicSamplingFillsTheBatchWithGroupsThatDiffer) {
  SmallRun run = small_run();
  run.algorithm.filter_groups = {true, "score", 0};
  run.algorithm.overlong_buffer = {true, 4, 0.5};
  run.data.train_batch_size = 6;
  expect_the_same(run, "dapo");
  const Outcome one = outcome(run, alone(), 2);
  EXPECT_GE(one.taken.back(), 12);
  EXPECT_EQ(one.taken.back() % 6, 0);
  // Every group of three has two different scores, so that its deviation is not 0.
  EXPECT_GT(one.last.at("critic/advantages/max"), 0.5);
  EXPECT_GE(one.last.at("training/num_gen_batches"), 1.0);
}

TEST(Algorithms, DynamicSamplingEndsWhereNoGroupDiffers) {
  SmallRun run = small_run();
  run.algorithm.filter_groups = {true, "acc", 2};  // random weights solve nothing
  const auto env = plan::RankEnv::from_environment();
  SmallRank rank(run, env, everyone(env.num_ranks));
  OnlineStep step(rank.context, run.data, run.rollout, run.algorithm, run.actor);
  try {
    step.run(0, 10, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(std::string(error.what()).find("after 2 generated batches"), std::string::npos) << error.what();
  }
}

TEST(Algorithms, RolloutCorrectionChangesNothingWhereRolloutIsTheActor) {
  SmallRun plain = small_run(), corrected = small_run();
  corrected.algorithm.rollout_correction.rollout_is = "token";
  corrected.algorithm.rollout_correction.rollout_rs = "token_k1,seq_mean_k3";
  corrected.algorithm.rollout_correction.rollout_rs_threshold = "0.9_1.1,0.01";
  const auto env = plan::RankEnv::from_environment();
  const Outcome without = outcome(plain, env, 2), with = outcome(corrected, env, 2, /*inexact=*/true);
  EXPECT_TRUE(with.masters.equal(without.masters));
  EXPECT_EQ(with.last.at("rollout_corr/rollout_is/mean"), 1.0);
  EXPECT_EQ(with.last.at("rollout_corr/rollout_rs_masked_fraction"), 0.0);
  SmallRun bypassed = small_run();
  bypassed.algorithm.rollout_correction.bypass_mode = true;
  EXPECT_TRUE(outcome(bypassed, env, 2, true).masters.equal(without.masters));
}

// Rejected tokens count neither in the loss nor in what it is divided by.
TEST(Algorithms, AResponseThatIsRejectedMightAsWellNotBeThere) {
  for (const char* aggregation : {"token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    SmallRun run;
    run.actor.loss.loss_agg_mode = aggregation;
    run.actor.loss.entropy_coeff = 0.01;
    const auto gradient = [&](bool rejected) {
      SmallRank rank(run, alone(), everyone(1));
      StepMetrics metrics;
      auto groups = generate_groups(rank.context, run.data, run.rollout, {}, metrics).groups;
      for (Group& group : groups) {
        for (size_t i = 0; i < group.samples.size(); ++i) {
          Sample& sample = group.samples[i];
          sample.advantages.assign(sample.tokens.size(), static_cast<float>(i) - 0.5F);
          sample.ref_log_probs.assign(sample.tokens.size(), -5.0F);
          if (rejected) sample.mask.assign(sample.tokens.size(), i == 2 ? 0 : 1);
        }
        if (!rejected) group.samples.pop_back();
      }
      update_policy(rank.context, groups, run.actor, {.lr = 1e-3, .max_response_length = 9}, metrics);
      return rank.models.actor_parameters->gradient().clone();
    };
    const at::Tensor with = gradient(true), without = gradient(false);
    EXPECT_GT(at::linalg_vector_norm(without).item<double>(), 1e-3);
    EXPECT_LT(at::linalg_vector_norm(with - without).item<double>(),
              1e-5 * at::linalg_vector_norm(without).item<double>())
        << aggregation;
  }
}

}  // namespace
}  // namespace trireme::steps
