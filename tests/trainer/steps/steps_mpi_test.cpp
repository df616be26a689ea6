// Steps on two and three MPI ranks, held against the same step on one rank.
#include <gtest/gtest.h>

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "tests/trainer/steps/small_run.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::steps {
namespace {

plan::RankEnv alone() {
  plan::RankEnv env;
  env.rank = 0;
  env.num_ranks = 1;
  return env;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return at::linalg_vector_norm(a - b).item<double>() / at::linalg_vector_norm(b).item<double>();
}

observe::Metrics online(SmallRank& rank, const SmallRun& run, int64_t step) {
  return OnlineStep(rank.context, run.data, run.rollout, run.algorithm, run.actor)
      .run(step, 10, step * run.data.train_batch_size);
}

TEST(Steps, GradientOfAGrpoStepEqualsThatOfOneRankToRounding) {
  const SmallRun run;
  const auto env = plan::RankEnv::from_environment();
  SmallRank many(run, env, everyone(env.num_ranks)), one(run, alone(), everyone(1));
  const auto metrics_many = online(many, run, 0), metrics_one = online(one, run, 0);
  const at::Tensor &gradient = many.models.actor_parameters->gradient(),
                   &expected = one.models.actor_parameters->gradient();
  ASSERT_GT(at::linalg_vector_norm(expected).item<double>(), 1e-3);
  EXPECT_LT(relative_difference(gradient, expected), 1e-5);
  for (const char* name : {"critic/score/mean", "response_length/mean", "actor/pg_loss", "actor/kl_loss",
                           "actor/entropy", "actor/grad_norm", "perf/total_num_tokens"})
    EXPECT_NEAR(metrics_many.at(name), metrics_one.at(name), 1e-5 * (1 + std::abs(metrics_one.at(name))))
        << name;
  EXPECT_GT(metrics_one.at("actor/kl_loss"), 0.0);
}

TEST(Steps, ParametersAreTheSameBitsOnAllRanksAfterEachStep) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const SmallRun run;
    const auto env = plan::RankEnv::from_environment();
    SmallRank rank(run, env, everyone(env.num_ranks), dtype);
    const uint64_t before = rank.models.actor_parameters->weights().checksum();
    for (int64_t step = 0; step < 3; ++step) {
      online(rank, run, step);
      EXPECT_NO_THROW(
          sharding::check_replicas(rank.models.actor_parameters->masters(), rank.session.world()));
    }
    EXPECT_NE(rank.models.actor_parameters->weights().checksum(), before);
  }
}

TEST(Steps, ReplicasThatDifferAreReported) {
  const SmallRun run;
  const auto env = plan::RankEnv::from_environment();
  SmallRank rank(run, env, everyone(env.num_ranks));
  if (env.rank == env.num_ranks - 1) rank.models.actor_parameters->masters()[7] += 1e-3;
  EXPECT_THROW(sharding::check_replicas(rank.models.actor_parameters->masters(), rank.session.world()),
               Error);
}

TEST(Steps, GradientOfAnSftStepEqualsThatOfOneRankToRounding) {
  const SmallRun run;
  const auto env = plan::RankEnv::from_environment();
  SmallRank many(run, env, everyone(env.num_ranks)), one(run, alone(), everyone(1));
  SftStep(many.context, run.data, run.sft, 120).run(0, 10, 0);
  SftStep(one.context, run.data, run.sft, 4096).run(0, 10, 0);
  EXPECT_LT(
      relative_difference(many.models.actor_parameters->gradient(), one.models.actor_parameters->gradient()),
      1e-5);
}

TEST(Steps, TheLossOnHeldOutExamplesIsThatOfOneRank) {
  const SmallRun run;
  const auto env = plan::RankEnv::from_environment();
  SmallRank many(run, env, everyone(env.num_ranks)), one(run, alone(), everyone(1));
  const double expected = SftStep(one.context, run.data, run.sft, 4096).loss(one.problems.val);
  EXPECT_GT(expected, 1.0);
  EXPECT_NEAR(SftStep(many.context, run.data, run.sft, 120).loss(many.problems.val), expected,
              1e-6 * expected);
  const std::span<const data::Problem> first(many.problems.val.data(), 1);  // fewer than ranks
  EXPECT_NEAR(SftStep(many.context, run.data, run.sft, 120).loss(first),
              SftStep(one.context, run.data, run.sft, 120).loss(first), 1e-6);
}

// Several texts of one problem, and turns in the middle of them.
TEST(Steps, OnlyLearnedTokensCount) {
  SmallRun run;
  run.sft.train_batch_size = 1;
  run.sft.bare_batch_size = 0;
  const auto env = plan::RankEnv::from_environment();
  SmallRank rank(run, env, everyone(env.num_ranks));
  rank.problems.train.resize(1);
  auto& learned = rank.problems.train[0].learned;
  learned = {{{5, 6, 7, 8, 9}, {0, 1, 0, 0, 1}}, {{11, 12}, {0, 1}}};
  const double both = SftStep(rank.context, run.data, run.sft, 120).loss(rank.problems.train);
  // The same tokens, each behind its own beginning.
  learned = {{{5, 6}, {0, 1}}, {{5, 6, 7, 8, 9}, {0, 0, 0, 0, 1}}, {{11, 12}, {0, 1}}};
  EXPECT_NEAR(SftStep(rank.context, run.data, run.sft, 120).loss(rank.problems.train), both, 1e-6);
  const auto metrics = SftStep(rank.context, run.data, run.sft, 120).run(0, 1, 0);
  EXPECT_NEAR(metrics.at("sft/loss"), both, 1e-6);
  EXPECT_EQ(metrics.at("sft/learned_tokens"), 3);
  EXPECT_EQ(metrics.at("perf/total_num_tokens"), 9);
}

TEST(Steps, ARankWithoutAPromptTakesPartWithAnEmptyBatch) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    SmallRun run;
    run.parallel.zero_stage = zero_stage;
    run.data.train_batch_size = 2;
    run.actor.ppo_mini_batch_size = 1;  // fewer than ranks
    run.sft.train_batch_size = 1;
    run.sft.bare_batch_size = 0;
    const auto env = plan::RankEnv::from_environment();
    SmallRank many(run, env, everyone(env.num_ranks)), one(run, alone(), everyone(1));
    for (int64_t step = 0; step < 2; ++step) {
      const auto metrics_many = online(many, run, step), metrics_one = online(one, run, step);
      for (const char* name : {"actor/pg_loss", "actor/grad_norm", "critic/score/mean", "actor/kl_loss"})
        EXPECT_NEAR(metrics_many.at(name), metrics_one.at(name), 1e-4) << name << ", stage " << zero_stage;
    }
    const auto sft_many = SftStep(many.context, run.data, run.sft, 120).run(0, 10, 0),
               sft_one = SftStep(one.context, run.data, run.sft, 120).run(0, 10, 0);
    EXPECT_NEAR(sft_many.at("sft/loss"), sft_one.at("sft/loss"), 1e-4);
    EXPECT_NEAR(sft_many.at("sft/grad_norm"), sft_one.at("sft/grad_norm"), 1e-3);
  }
}

TEST(Steps, RolesOnRanksOfTheirOwnGiveTheColocatedResult) {
  const SmallRun run;
  const auto env = plan::RankEnv::from_environment();
  placement::RoleRanks apart;
  apart.rollout = {env.num_ranks - 1};
  for (int rank = 0; rank + 1 < env.num_ranks; ++rank) apart.actor.push_back(rank);
  apart.reference = {0};
  SmallRank many(run, env, apart), one(run, alone(), everyone(1));
  for (int64_t step = 0; step < 2; ++step) {
    const auto metrics_many = online(many, run, step), metrics_one = online(one, run, step);
    EXPECT_NEAR(metrics_many.at("actor/pg_loss"), metrics_one.at("actor/pg_loss"), 1e-4);
    EXPECT_NEAR(metrics_many.at("critic/score/mean"), metrics_one.at("critic/score/mean"), 1e-9);
  }
  if (many.models.rollout_parameters) {
    EXPECT_LT(
        relative_difference(many.models.rollout_parameters->flat(), one.models.actor_parameters->masters()),
        1e-4);
  }
}

TEST(Steps, SeveralMiniBatchesAndEpochsClipAgainstTheOldPolicy) {
  SmallRun run;
  run.actor.ppo_mini_batch_size = 3;
  run.actor.ppo_epochs = 2;
  run.actor.optim.lr = 2e-2;
  const auto env = plan::RankEnv::from_environment();
  SmallRank many(run, env, everyone(env.num_ranks)), one(run, alone(), everyone(1));
  const auto metrics_many = online(many, run, 0), metrics_one = online(one, run, 0);
  EXPECT_EQ(many.models.optimizer->updates(), 4);
  EXPECT_GT(std::abs(metrics_one.at("actor/ppo_kl")), 1e-4);  // the policy moved between updates
  EXPECT_NEAR(metrics_many.at("actor/ppo_kl"), metrics_one.at("actor/ppo_kl"),
              2e-2 * std::abs(metrics_one.at("actor/ppo_kl")));
}

bool has_stage(SmallRank& rank, const std::string& name) {
  const auto times = rank.stages.times_over_ranks();
  return std::any_of(times.begin(), times.end(), [&](const auto& stage) { return stage.first == name; });
}

TEST(Steps, RolloutsLogProbabilitiesAreTheActorsOwnBitForBit) {
  SmallRun run;
  run.actor.ppo_mini_batch_size = 4;  // two updates a step, the second against a policy that has moved
  run.rollout.sampling.temperature = 0.8;
  run.rollout.max_num_seqs = 5;
  const auto env = plan::RankEnv::from_environment();
  placement::RoleRanks apart = everyone(env.num_ranks);
  apart.rollout = {env.num_ranks - 1};
  for (const auto dtype : {at::kFloat, at::kBFloat16})
    for (const auto& roles : {everyone(env.num_ranks), apart}) {
      SmallRank rank(run, env, roles, dtype);
      for (int64_t step = 0; step < 3; ++step) {
        const auto metrics = online(rank, run, step);
        EXPECT_EQ(metrics.at("training/rollout_probs_diff_max"), 0.0) << "step " << step;
        EXPECT_EQ(metrics.at("training/rollout_probs_diff_mean"), 0.0);
      }
      EXPECT_FALSE(has_stage(rank, "old_log_prob"));
    }
}

TEST(Steps, WhereRolloutIsNotTheActorOldLogProbabilitiesAreComputedAgain) {
  SmallRun run;
  run.actor.ppo_mini_batch_size = 3;
  run.actor.ppo_epochs = 2;
  const auto env = plan::RankEnv::from_environment();
  SmallRank exact(run, env, everyone(env.num_ranks)), inexact(run, env, everyone(env.num_ranks));
  inexact.models.inexact_because = "this test says so";
  for (int64_t step = 0; step < 2; ++step) {
    online(exact, run, step);
    online(inexact, run, step);
  }
  EXPECT_FALSE(has_stage(exact, "old_log_prob"));
  EXPECT_TRUE(has_stage(inexact, "old_log_prob"));
  // On the CPU both ways come to the same numbers, so nothing else may have changed.
  EXPECT_EQ(exact.models.actor_parameters->weights().checksum(),
            inexact.models.actor_parameters->weights().checksum());

  run.actor.ppo_mini_batch_size = 0;
  run.actor.ppo_epochs = 1;
  inexact.stages.reset();
  online(inexact, run, 2);
  EXPECT_FALSE(has_stage(inexact, "old_log_prob"));  // one update: the policy that is updated has sampled
}

}  // namespace
}  // namespace trireme::steps
