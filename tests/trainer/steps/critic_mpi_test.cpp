// PPO in whole steps on four MPI ranks: the critic on ranks and in layouts of all kinds, with the same
// results.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "runtime/observe/metrics.h"
#include "tests/trainer/steps/small_run.h"
#include "tests/trainer/steps/whole_masters.h"
#include "trainer/steps/run_state.h"

namespace trireme::steps {
namespace {

namespace fs = std::filesystem;

plan::RankEnv alone() {
  plan::RankEnv env;
  env.rank = 0;
  env.num_ranks = 1;
  return env;
}

const std::vector<int> kAll{0, 1, 2, 3};

struct Where {
  std::vector<int> actor = kAll, critic = kAll;
  int critic_tp = 1;
  int64_t zero_stage = 0;  // of the critic
  const char* reduce = "exact";
  int actor_tp = 1;
  int critic_pp = 1, actor_pp = 1;
};

SmallRun ppo(const Where& where = {}) {
  SmallRun run;
  run.algorithm.adv_estimator = "gae";
  run.algorithm.gamma = 0.99;
  run.algorithm.lam = 0.95;
  // All that stands around PPO.
  run.algorithm.use_kl_in_reward = true;
  run.algorithm.kl_ctrl = {"adaptive", 0.2, 100, 1e-2};
  run.actor.loss.use_kl_loss = false;
  run.actor.loss.entropy_coeff = 0.01;
  run.actor.ppo_epochs = 2;
  run.actor.ppo_mini_batch_size = 3;
  run.actor.optim.grad_clip = 1.0;
  run.parallel = {where.actor_tp, 0, "exact"};
  run.critic_parallel = {where.critic_tp, where.zero_stage, where.reduce};
  run.critic.ppo_max_token_len_per_rank = 150;
  run.critic.optim.lr = 1e-3;
  return run;
}

placement::RoleRanks roles_of(const Where& where, const std::vector<int>& others = kAll) {
  placement::RoleRanks roles;
  roles.actor = where.actor;
  roles.critic = where.critic;
  roles.rollout = others;
  roles.reference = others;
  roles.axes = {.actor = {.pp = where.actor_pp, .tp = where.actor_tp},
                .critic = {.pp = where.critic_pp, .tp = where.critic_tp},
                .rollout = {.tp = where.actor_tp}};
  return roles;
}

struct Result {
  at::Tensor actor, critic;
  std::vector<observe::Metrics> metrics;
  double kl_coefficient = 0;
};

Result train(const SmallRun& run, const plan::RankEnv& env, const placement::RoleRanks& roles,
             int64_t steps) {
  SmallRank rank(run, env, roles);
  OnlineStep online(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic);
  Result result;
  for (int64_t step = 0; step < steps; ++step)
    result.metrics.push_back(online.run(step, 10, step * run.data.train_batch_size));
  result.actor = whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  result.critic =
      whole_masters(rank.models.critic_parameters.get(), *rank.models.critic_shape, rank.session.world());
  result.kl_coefficient = online.kl_coefficient();
  return result;
}

Result train(const Where& where, int64_t steps = 2) {
  return train(ppo(where), plan::RankEnv::from_environment(), roles_of(where), steps);
}

TEST(Critic, PlacementsGiveTheSameParametersBitForBit) {
  const Result colocated = train(Where{});
  const std::map<std::string, Where> placements{
      {"separate", {{0, 1}, {2, 3}}},
      {"overlapping", {{0, 1, 2}, {2, 3}}},
      {"one rank", {kAll, {1}}},
      {"ZeRO 1", {kAll, kAll, 1, 1}},
      {"ZeRO 2, separate", {{3}, {0, 1, 2}, 1, 2}},
      {"ZeRO 3", {kAll, {0, 1, 3}, 1, 3}},
      {"two stages", {kAll, kAll, 1, 1, "exact", 1, 2, 2}},
      {"two stages, apart", {{0, 1}, {2, 3}, 1, 0, "exact", 1, 2, 1}},
  };
  for (const auto& [name, where] : placements) {
    const Result result = train(where);
    EXPECT_TRUE(result.critic.equal(colocated.critic)) << name;
    EXPECT_TRUE(result.actor.equal(colocated.actor)) << name;
    EXPECT_EQ(result.metrics.back().at("critic/vf_explained_var"),
              colocated.metrics.back().at("critic/vf_explained_var"))
        << name;
  }
}

TEST(Critic, AnyNumberOfRanksLearnsWhatOneDoes) {
  const Result one = train(ppo(), alone(), everyone(1, /*critic=*/true), 2);
  const Result many = train(Where{});
  EXPECT_TRUE(many.critic.equal(one.critic));
  EXPECT_TRUE(many.actor.equal(one.actor));
  EXPECT_EQ(many.kl_coefficient, one.kl_coefficient);
  for (const auto& [name, value] : one.metrics.back())
    if (name.starts_with("critic/")) {
      EXPECT_NEAR(many.metrics.back().at(name), value, 1e-5 * (1 + std::abs(value))) << name;
    }
}

// One update, so that AdamW's signs have not spread rounding.
TEST(Critic, LayoutsComeToOneRanksGradientToRounding) {
  const auto gradient_norm = [](const Result& result) { return result.metrics[0].at("critic/grad_norm"); };
  SmallRun run = ppo();
  run.actor.ppo_epochs = 1;
  run.actor.ppo_mini_batch_size = 0;
  const Result one = train(run, alone(), everyone(1, true), 1);
  for (const Where& where :
       {Where{kAll, kAll, 2, 0, "fast"}, Where{kAll, kAll, 4, 0, "exact"}, Where{kAll, kAll, 2, 3, "fast"},
        Where{kAll, {1, 2}, 2, 1, "fast"}, Where{kAll, kAll, 1, 2, "fast"}}) {
    SmallRun other = ppo(where);
    other.actor.ppo_epochs = 1;
    other.actor.ppo_mini_batch_size = 0;
    const Result result = train(other, plan::RankEnv::from_environment(), roles_of(where), 1);
    EXPECT_NEAR(gradient_norm(result), gradient_norm(one), 1e-5 * gradient_norm(one));
    for (const char* name :
         {"critic/vf_loss", "critic/vpred_mean", "critic/values/max", "critic/returns/mean"})
      EXPECT_NEAR(result.metrics[0].at(name), one.metrics[0].at(name),
                  1e-5 * (1 + std::abs(one.metrics[0].at(name))))
          << name;
    EXPECT_LT(at::linalg_vector_norm(result.critic - one.critic).item<double>(),
              1e-3 * at::linalg_vector_norm(one.critic).item<double>());
  }
}

TEST(Critic, LearnsToForetellReturns) {
  SmallRun run = ppo();
  run.critic.ppo_epochs = 8;
  run.critic.critic_warmup = 100;  // the policy stays, and with it what there is to foretell
  run.critic.optim.lr = 3e-3;
  const Result result = train(run, plan::RankEnv::from_environment(), roles_of({}), 6);
  const auto &first = result.metrics.front(), &last = result.metrics.back();
  EXPECT_LT(last.at("critic/vf_loss"), 0.7 * first.at("critic/vf_loss"));
  EXPECT_GT(last.at("critic/vf_explained_var"), first.at("critic/vf_explained_var") + 0.3);
  for (const char* name :
       {"critic/values/mean", "critic/values/max", "critic/values/min", "critic/vf_clipfrac",
        "critic/vpred_mean", "critic/grad_norm", "critic/lr", "critic/returns/mean"})
    EXPECT_TRUE(last.contains(name)) << name;
  for (const auto& [name, value] : last) EXPECT_TRUE(observe::is_documented(name)) << name;
}

TEST(Critic, TheActorWaitsForItsWarmUp) {
  SmallRun run = ppo();
  run.critic.critic_warmup = 2;
  const Result one = train(run, plan::RankEnv::from_environment(), roles_of({}), 1),
               two = train(run, plan::RankEnv::from_environment(), roles_of({}), 2);
  EXPECT_FALSE(one.metrics[0].contains("actor/grad_norm"));
  EXPECT_TRUE(one.metrics[0].contains("critic/grad_norm"));
  EXPECT_TRUE(two.metrics[1].contains("actor/grad_norm"));
  EXPECT_FALSE(one.actor.equal(two.actor));
  EXPECT_FALSE(one.critic.equal(two.critic));
}

TEST(Critic, HasBatchesEpochsAndAggregationOfItsOwn) {
  SmallRun inherits = ppo(), same = ppo(), other = ppo();
  same.critic.ppo_epochs = 2;
  same.critic.ppo_mini_batch_size = 3;
  same.critic.loss_agg_mode = "token-mean";
  other.critic.ppo_epochs = 1;
  other.critic.loss_agg_mode = "seq-mean-token-sum";
  const auto critic = [](const SmallRun& run) {
    return train(run, plan::RankEnv::from_environment(), roles_of({}), 1).critic;
  };
  const at::Tensor expected = critic(inherits);
  EXPECT_TRUE(critic(same).equal(expected));
  EXPECT_FALSE(critic(other).equal(expected));
}

TEST(Critic, ACheckpointGoesOnInAnyLayout) {
  const auto folder = fs::temp_directory_path() / ("critic_" + std::to_string(getppid()));
  const auto resumed = [&](const Where& where, bool first) {
    const SmallRun run = ppo(where);
    SmallRank rank(run, plan::RankEnv::from_environment(), roles_of(where));
    OnlineStep online(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic);
    RunState state;
    state.phase = "rl";
    state.seed = 1;
    if (first) {
      online.run(0, 10, 0);
      state.step = 1;
      state.kl_coefficient = online.kl_coefficient();
      save(folder.string(), state, rank.models, rank.context.tokenizer, rank.session);
      rank.session.world().barrier();
      EXPECT_TRUE(fs::exists(folder / "critic" / "config.json"));
    } else {
      if (rank.models.actor_parameters) rank.models.actor_parameters->masters().zero_();
      if (rank.models.critic_parameters) rank.models.critic_parameters->masters().zero_();
      state = read_state(folder.string(), 1);
      EXPECT_EQ(state.critic_updates, 4);  // two epochs of two mini-batches
      online.set_kl_coefficient(*state.kl_coefficient);
      restore(folder.string(), state, rank.models, rank.session);
    }
    online.run(1, 10, run.data.train_batch_size);
    return whole_masters(rank.models.critic_parameters.get(), *rank.models.critic_shape,
                         rank.session.world());
  };
  const at::Tensor straight = resumed({}, true);
  for (const Where& where : {Where{}, Where{{0, 1}, {2, 3}}, Where{kAll, {0, 1, 2}, 1, 3}, Where{{2}, {0}}})
    EXPECT_TRUE(resumed(where, false).equal(straight));
  const at::Tensor split = resumed({kAll, kAll, 2, 1}, false);
  EXPECT_LT(at::linalg_vector_norm(split - straight).item<double>(),
            1e-3 * at::linalg_vector_norm(straight).item<double>());
  if (plan::RankEnv::from_environment().rank == 0) fs::remove_all(folder);
}

}  // namespace
}  // namespace trireme::steps
