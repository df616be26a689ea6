// Whole steps with roles in layouts and on ranks of all kinds, on four MPI ranks: the same results.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "runtime/base/error.h"
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

struct Where {
  std::vector<int> actor, rollout, reference;
  int tp = 1, rollout_tp = 1, reference_tp = 1;
  int64_t zero_stage = 0;
  const char* reduce = "exact";
  int cp = 1;  // of the actor
};

const std::vector<int> kAll{0, 1, 2, 3};

SmallRun run_of(const Where& where) {
  SmallRun run;
  run.parallel = {where.tp, where.zero_stage, where.reduce};
  run.actor.optim.grad_clip = 1.0;
  return run;
}

placement::RoleRanks roles_of(const Where& where) {
  placement::RoleRanks roles;
  roles.actor = where.actor;
  roles.rollout = where.rollout;
  roles.reference = where.reference;
  roles.axes = {.actor = {.cp = where.cp, .tp = where.tp},
                .reference = {.tp = where.reference_tp},
                .rollout = {.tp = where.rollout_tp}};
  return roles;
}

// The whole model's masters, on every rank.
at::Tensor gathered_masters(SmallRank& rank, const models::DecoderShape& shape) {
  return whole_masters(rank.models.actor_parameters.get(), shape, rank.session.world());
}

struct Result {
  at::Tensor masters;
  observe::Metrics last;
};

Result train(const Where& where, at::ScalarType dtype, int64_t steps = 3, bool dynamic_sampling = false) {
  SmallRun run = run_of(where);
  if (dynamic_sampling) {
    run.algorithm.filter_groups = {true, "score", 0};
    run.algorithm.overlong_buffer = {true, 4, 0.5};  // lengths make scores differ
  }
  SmallRank rank(run, plan::RankEnv::from_environment(), roles_of(where), dtype);
  Result result;
  int64_t taken = 0;
  for (int64_t step = 0; step < steps; ++step) {
    OnlineStep online(rank.context, run.data, run.rollout, run.algorithm, run.actor);
    result.last = online.run(step, 10, taken);
    taken += online.problems_taken();
  }
  result.masters = gathered_masters(rank, run.shape);
  return result;
}

TEST(Layouts, PlacementsOfOneJobGiveTheSameParametersBitForBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Result colocated = train({kAll, kAll, kAll}, dtype);
    const std::map<std::string, Where> placements{
        {"separate", {{0, 1}, {2, 3}, {2}}},        {"half overlapping", {{0, 1, 2}, {1, 2, 3}, {0, 3}}},
        {"one rank trains", {{3}, {0, 1, 2}, {3}}}, {"ZeRO 1", {kAll, kAll, kAll, 1, 1, 1, 1}},
        {"ZeRO 3", {kAll, kAll, kAll, 1, 1, 1, 3}}, {"ZeRO 2, separate", {{0, 1, 3}, {2}, {1}, 1, 1, 1, 2}},
    };
    for (const auto& [name, where] : placements) {
      const Result result = train(where, dtype);
      EXPECT_TRUE(result.masters.equal(colocated.masters)) << name;
      EXPECT_EQ(result.last.at("training/rollout_probs_diff_max"), 0.0) << name;
    }
  }
}

TEST(Layouts, SoTheyDoWithTensorParallelism) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Result colocated = train({kAll, kAll, kAll, 2, 2, 1}, dtype);
    EXPECT_EQ(colocated.last.at("training/rollout_probs_diff_max"), 0.0);
    const std::map<std::string, Where> placements{
        {"separate", {{0, 1}, {2, 3}, kAll, 2, 2, 1}},
        {"half overlapping", {kAll, {2, 3}, {0, 1, 2}, 2, 2, 1}},
        {"ZeRO 3", {kAll, kAll, {1}, 2, 2, 1, 3}},
        {"other pairs", {{0, 1}, {1, 2}, kAll, 2, 2, 1, 1}},
    };
    for (const auto& [name, where] : placements) {
      const Result result = train(where, dtype);
      EXPECT_TRUE(result.masters.equal(colocated.masters)) << name;
      EXPECT_EQ(result.last.at("training/rollout_probs_diff_max"), 0.0) << name;
    }
  }
}

TEST(Layouts, DynamicSamplingGoesOnUntilAllReplicasTogetherHaveEnough) {
  const std::map<std::string, std::vector<Where>> alike{
      {"one rank a replica", {{kAll, kAll, kAll}, {{0, 1}, {2, 3}, {2}}, {{3}, {0, 1, 2}, {3}}}},
      {"two ranks a replica",
       {{kAll, kAll, kAll, 2, 2, 1}, {{0, 1}, {2, 3}, kAll, 2, 2, 1}, {kAll, {2, 3}, {0, 1, 2}, 2, 2, 1}}}};
  for (const auto& [name, places] : alike) {
    const Result first = train(places[0], at::kFloat, 2, true);
    EXPECT_GT(first.last.at("training/num_gen_batches"), 1.0) << name;
    for (size_t i = 1; i < places.size(); ++i) {
      const Result other = train(places[i], at::kFloat, 2, true);
      EXPECT_TRUE(other.masters.equal(first.masters)) << name << ", " << i;
      for (const char* metric : {"training/num_gen_batches", "critic/score/mean"})
        EXPECT_NEAR(other.last.at(metric), first.last.at(metric), 1e-9) << name << ", " << i;
    }
  }
}

TEST(Layouts, AFastStepComesToTheSameAsOneRanksToRounding) {
  SmallRun run;
  run.actor.optim.grad_clip = 1.0;
  SmallRank one(run, alone(), everyone(1));
  OnlineStep(one.context, run.data, run.rollout, run.algorithm, run.actor).run(0, 10, 0);
  const at::Tensor expected = one.models.actor_parameters->masters();
  for (const Where& where :
       {Where{kAll, kAll, kAll, 1, 1, 1, 2, "fast"}, Where{kAll, kAll, kAll, 4, 4, 4, 0, "fast"},
        Where{kAll, {1, 2}, {0}, 2, 1, 1, 1, "fast"}}) {
    const Result result = train(where, at::kFloat, 1);
    // Adam's first step is lr times a sign: what is near zero may turn, little moves.
    EXPECT_LT(at::linalg_vector_norm(result.masters - expected).item<double>(),
              1e-3 * at::linalg_vector_norm(expected).item<double>());
    if (where.tp == where.rollout_tp)
      EXPECT_EQ(result.last.at("training/rollout_probs_diff_max"), 0.0);
    else
      EXPECT_LT(result.last.at("training/rollout_probs_diff_max"), 1e-4);
  }
}

TEST(Layouts, OtherTensorParallelSizesBringTheOldLogProbabilitiesBack) {
  Where where{kAll, kAll, kAll, 2, 1, 1};
  SmallRun run = run_of(where);
  run.actor.ppo_mini_batch_size = 3;
  SmallRank rank(run, plan::RankEnv::from_environment(), roles_of(where));
  EXPECT_NE(rank.models.inexact_because.find("tp is 2"), std::string::npos);
  OnlineStep step(rank.context, run.data, run.rollout, run.algorithm, run.actor);
  EXPECT_TRUE(step.recomputes_old_log_probs());
  EXPECT_LT(step.run(0, 10, 0).at("training/rollout_probs_diff_max"), 1e-4);
}

TEST(Layouts, OneThatDoesNotFitIsRefusedWithThoseThatWould) {
  Where where{kAll, kAll, kAll, 4, 4, 4};
  SmallRun run = run_of(where);
  run.shape.num_attention_heads = 6;
  run.shape.num_key_value_heads = 3;
  try {
    SmallRank rank(run, plan::RankEnv::from_environment(), roles_of(where));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(std::string(error.what()).find("these tp sizes fit all tensors: 1"), std::string::npos)
        << error.what();
  }
}

// A checkpoint of one layout goes on in another: exactly, where the sums are exact and tp is the same.
TEST(Layouts, ACheckpointGoesOnInAnyLayout) {
  const auto folder = fs::temp_directory_path() / ("layouts_" + std::to_string(getppid()));
  const auto resumed = [&](const Where& where, bool first) {
    const SmallRun run = run_of(where);
    SmallRank rank(run, plan::RankEnv::from_environment(), roles_of(where));
    RunState state;
    state.phase = "grpo";
    state.seed = 1;
    const auto step = [&](int64_t number) {
      return OnlineStep(rank.context, run.data, run.rollout, run.algorithm, run.actor)
          .run(number, 10, number * run.data.train_batch_size);
    };
    if (first) {
      step(0);
      state.step = 1;
      state.kl_coefficient = 0.1;  // no binary fraction: all its bits come back
      save(folder.string(), state, rank.models, rank.context.tokenizer, rank.session);
      rank.session.world().barrier();
    } else {
      state = read_state(folder.string(), 1);
      EXPECT_EQ(state.kl_coefficient, 0.1);
      restore(folder.string(), state, rank.models, rank.session);
    }
    Result result;
    result.last = step(1);
    result.masters = gathered_masters(rank, run.shape);
    return result;
  };
  const Result straight = resumed({kAll, kAll, kAll}, true);
  for (const Where& where :
       {Where{kAll, kAll, kAll}, Where{{0, 1}, {2, 3}, {2}, 1, 1, 1, 3}, Where{{2}, kAll, {0}}})
    EXPECT_TRUE(resumed(where, false).masters.equal(straight.masters));
  for (const Where& where :
       {Where{{0, 1}, {0, 1, 2, 3}, {3}, 2, 2, 1}, Where{kAll, kAll, kAll, 2, 2, 2, 1},
        Where{kAll, kAll, kAll, 1, 1, 1, 3, "exact", 2}, Where{kAll, kAll, kAll, 2, 2, 1, 1, "exact", 2}}) {
    const Result result = resumed(where, false);
    EXPECT_NEAR(result.last.at("actor/pg_loss"), straight.last.at("actor/pg_loss"), 1e-5);
    EXPECT_LT(at::linalg_vector_norm(result.masters - straight.masters).item<double>(),
              1e-3 * at::linalg_vector_norm(straight.masters).item<double>());
  }
  // And one of ranks that share out sequences, and the optimizer's state over all of them.
  const Result shared = resumed({kAll, kAll, kAll, 1, 1, 1, 2, "exact", 4}, true);
  const Result apart = resumed({{1}, kAll, {0}}, false);
  EXPECT_LT(at::linalg_vector_norm(apart.masters - shared.masters).item<double>(),
            1e-3 * at::linalg_vector_norm(shared.masters).item<double>());
  if (plan::RankEnv::from_environment().rank == 0) fs::remove_all(folder);
}

}  // namespace
}  // namespace trireme::steps
