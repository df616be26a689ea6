// Whole steps of every kind with sequences split over ranks, on four MPI ranks, against one rank's.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "tests/trainer/steps/small_run.h"
#include "tests/trainer/steps/whole_masters.h"
#include "trainer/steps/dpo_step.h"

namespace trireme::steps {
namespace {

plan::RankEnv alone() {
  plan::RankEnv env;
  env.rank = 0;
  env.num_ranks = 1;
  return env;
}

struct Where {
  const char* name;
  placement::ReplicaAxes axes;  // of all that train or read
  int64_t zero_stage = 0;
  std::vector<int> rollout = {0, 1, 2, 3};
};

// cp alone, with dp, with tp, with pp; the reference and the critic as the actor.
const std::vector<Where> kLayouts{{"cp 4", {.cp = 4}},
                                  {"cp 2, dp 2", {.cp = 2}},
                                  {"cp 2, dp 2, ZeRO 3", {.cp = 2}, 3},
                                  {"cp 2, tp 2", {.cp = 2, .tp = 2}},
                                  {"cp 2, pp 2", {.pp = 2, .cp = 2}}};

placement::RoleRanks roles_of(const Where& where, bool critic) {
  placement::RoleRanks roles = everyone(4, critic);
  roles.rollout = where.rollout;
  roles.axes = {
      .actor = where.axes, .critic = where.axes, .reference = where.axes, .rollout = {.tp = where.axes.tp}};
  return roles;
}

struct Result {
  observe::Metrics metrics;
  at::Tensor actor, critic;  // masters
};

using Step = std::function<observe::Metrics(SmallRank&, const SmallRun&)>;

Result run_step(SmallRun run, const Step& step, const plan::RankEnv& env, const placement::RoleRanks& roles,
                int64_t zero_stage) {
  run.parallel.zero_stage = run.critic_parallel.zero_stage = zero_stage;
  SmallRank rank(run, env, roles);
  Result result;
  result.metrics = step(rank, run);
  result.actor = whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  if (rank.models.critic_shape)
    result.critic =
        whole_masters(rank.models.critic_parameters.get(), *rank.models.critic_shape, rank.session.world());
  return result;
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return at::linalg_vector_norm(a - b).item<double>() / at::linalg_vector_norm(b).item<double>();
}

// One update. Adam's first step is lr times a sign, so that what is near zero may turn: losses and the norm
// of the gradient say more than the masters do.
void expect_one_ranks(const SmallRun& run, const Step& step, const std::vector<std::string>& metrics) {
  const bool critic = run.algorithm.adv_estimator == "gae";
  const Result expected = run_step(run, step, alone(), everyone(1, critic), 0);
  for (const Where& where : kLayouts) {
    SCOPED_TRACE(where.name);
    const Result result =
        run_step(run, step, plan::RankEnv::from_environment(), roles_of(where, critic), where.zero_stage);
    for (const std::string& name : metrics)
      EXPECT_NEAR(result.metrics.at(name), expected.metrics.at(name),
                  1e-5 * (1 + std::abs(expected.metrics.at(name))))
          << name;
    EXPECT_LT(apart(result.actor, expected.actor), 1e-3);
    if (critic) {
      EXPECT_LT(apart(result.critic, expected.critic), 1e-3);
    }
    const auto apart_from_rollout = result.metrics.find("training/rollout_probs_diff_max");
    if (apart_from_rollout != result.metrics.end()) {
      EXPECT_EQ(apart_from_rollout->second, 0.0);
    }
  }
}

observe::Metrics online(SmallRank& rank, const SmallRun& run) {
  return OnlineStep(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic).run(0, 10, 0);
}

TEST(ContextParallelSteps, GrpoByHeadsAndByTheRing) {
  SmallRun run;
  run.actor.loss.entropy_coeff = 0.01;
  for (const int64_t heads : {4, 6}) {  // 6 heads do not divide over 4 ranks
    run.shape.num_attention_heads = heads;
    expect_one_ranks(run, online,
                     {"actor/pg_loss", "actor/kl_loss", "actor/entropy_loss", "actor/grad_norm",
                      "critic/score/mean", "perf/total_num_tokens"});
  }
}

// The ratio of whole responses (GSPO), and a log-probability of before the step's updates.
TEST(ContextParallelSteps, LossesOfWholeResponses) {
  SmallRun run;
  run.actor.loss.loss_mode = "gspo";
  run.actor.loss.use_kl_loss = false;
  run.actor.loss.loss_agg_mode = "seq-mean-token-mean";
  expect_one_ranks(run, online, {"actor/pg_loss", "actor/grad_norm"});
}

TEST(ContextParallelSteps, PpoWithACritic) {
  SmallRun run;
  run.algorithm.adv_estimator = "gae";
  run.algorithm.use_kl_in_reward = true;
  run.critic.ppo_epochs = 1;
  run.critic.optim.lr = 1e-3;
  run.critic.loss_agg_mode = "token-mean";
  expect_one_ranks(run, online,
                   {"actor/pg_loss", "actor/grad_norm", "critic/vf_loss", "critic/grad_norm",
                    "critic/advantages/mean", "actor/reward_kl_penalty", "critic/values/mean"});
}

TEST(ContextParallelSteps, SupervisedFineTuning) {
  const Step step = [](SmallRank& rank, const SmallRun& run) {
    return SftStep(rank.context, run.data, run.sft, run.actor.ppo_max_token_len_per_rank).run(0, 10, 0);
  };
  expect_one_ranks({}, step, {"sft/loss", "sft/grad_norm", "sft/learned_tokens"});
}

TEST(ContextParallelSteps, PreferencesOfPairs) {
  SmallRun run;
  run.data.max_response_length = 20;
  const Step step = [](SmallRank& rank, const SmallRun& small) {
    losses::PreferenceLossConfig loss;
    loss.sft_coef = 0.1;
    return DpoStep(rank.context, small.data, loss, small.actor).run(0, 10, 0);
  };
  expect_one_ranks(run, step, {"dpo/loss", "actor/grad_norm", "rewards/margins", "logps/chosen"});
}

TEST(ContextParallelSteps, ExactSumsHaveTheSameBitsWhereverTheRolesAre) {
  SmallRun run;
  run.parallel.reduce = "exact";
  const Step steps = [](SmallRank& rank, const SmallRun& small) {
    observe::Metrics last;
    for (int64_t step = 0; step < 2; ++step)
      last = OnlineStep(rank.context, small.data, small.rollout, small.algorithm, small.actor)
                 .run(step, 10, step * small.data.train_batch_size);
    return last;
  };
  const auto run_on = [&](std::vector<int> actor, std::vector<int> rollout, int64_t zero_stage) {
    placement::RoleRanks roles = everyone(4);
    roles.actor = std::move(actor);
    roles.rollout = std::move(rollout);
    roles.axes.actor.cp = 2;
    return run_step(run, steps, plan::RankEnv::from_environment(), roles, zero_stage).actor;
  };
  const at::Tensor expected = run_on({0, 1, 2, 3}, {0, 1, 2, 3}, 0);
  EXPECT_TRUE(run_on({0, 1, 2, 3}, {0, 1, 2, 3}, 3).equal(expected));
  EXPECT_TRUE(run_on({2, 3}, {0, 1}, 0).equal(expected));
  EXPECT_TRUE(run_on({1, 2}, {0, 1, 2, 3}, 1).equal(expected));
}

TEST(ContextParallelSteps, RolloutReadsTheActorsOwnWeights) {
  SmallRun run;
  placement::RoleRanks roles = everyone(4);
  roles.axes.actor.cp = 2;
  SmallRank rank(run, plan::RankEnv::from_environment(), roles);
  EXPECT_FALSE(rank.models.rollout_parameters);
  EXPECT_TRUE(rank.models.is_exact());
}

}  // namespace
}  // namespace trireme::steps
