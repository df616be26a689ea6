// DPO steps with roles in layouts and on ranks of all kinds, on four MPI ranks: the same results.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include <ATen/ops/linalg_vector_norm.h>

#include "tests/trainer/steps/small_run.h"
#include "tests/trainer/steps/whole_masters.h"
#include "trainer/steps/dpo_step.h"
#include "trainer/steps/run_state.h"

namespace trireme::steps {
namespace {

plan::RankEnv alone() {
  plan::RankEnv env;
  env.rank = 0;
  env.num_ranks = 1;
  return env;
}

struct Where {
  std::vector<int> actor, reference;
  int tp = 1, reference_tp = 1;
  int64_t zero_stage = 0;
  const char* reduce = "exact";
  int pp = 1, reference_pp = 1;
};

struct Case {
  losses::PreferenceLossConfig loss;
  int64_t steps = 3;
  double lr = 1e-3;
  bool begins_as_reference = true;
  bool prefers_yes = false;  // to no, whatever the prompt: what is learned holds for other prompts
};

struct Result {
  at::Tensor masters;
  observe::Metrics first, last, before, after;
};

// Arithmetic in whole answers: a slip stands near their end.
SmallRun small_run(const Where& where, const Case& wanted) {
  SmallRun run;
  run.data.max_response_length = 20;
  run.parallel = {where.tp, where.zero_stage, where.reduce};
  run.actor.optim.lr = wanted.lr;
  run.actor.optim.grad_clip = 1.0;
  return run;
}

placement::RoleRanks roles_of(const Where& where, const Case& wanted) {
  placement::RoleRanks roles;  // nobody generates
  roles.actor = where.actor;
  if (!wanted.loss.reference_free) roles.reference = where.reference;
  roles.axes = {.actor = {.pp = where.pp, .tp = where.tp},
                .reference = {.pp = where.reference_pp, .tp = where.reference_tp}};
  return roles;
}

// The reference's weights become those that the policy begins with.
void initialize_reference(SmallRank& rank, const SmallRun& run) {
  if (!rank.models.reference) return;
  rank.models.reference_parameters->initialize(5, run.shape);
  rank.models.reference->refresh();
}

Result train(const Where& where, const Case& wanted,
             const plan::RankEnv& env = plan::RankEnv::from_environment()) {
  const SmallRun run = small_run(where, wanted);
  SmallRank rank(run, env, roles_of(where, wanted));
  if (wanted.begins_as_reference) initialize_reference(rank, run);
  if (wanted.prefers_yes)
    for (auto* problems : {&rank.problems.train, &rank.problems.val})
      for (data::Problem& problem : *problems) {
        problem.response = "yes";
        problem.rejected = "no";
      }
  DpoStep dpo(rank.context, run.data, wanted.loss, run.actor);
  Result result;
  result.before = dpo.evaluate();
  for (int64_t step = 0; step < wanted.steps; ++step) {
    result.last = dpo.run(step, wanted.steps, step * run.data.train_batch_size);
    if (step == 0) result.first = result.last;
  }
  result.after = dpo.evaluate();
  result.masters = whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  return result;
}

void expect_near(const observe::Metrics& ours, const observe::Metrics& expected, double tolerance) {
  for (const auto& [name, value] : expected) {
    if (name.starts_with("global_seqlen")) continue;
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_NEAR(ours.at(name), value, tolerance * (1 + std::abs(value))) << name;
  }
}

TEST(Dpo, ExactSumsGiveTheSameBitsForAnyNumberOfRanksAndWhereverTheReferenceIs) {
  Case wanted;
  wanted.loss.sft_coef = 0.1;
  const Result one = train({{0}, {0}}, wanted, alone());
  const std::map<std::string, Where> placements{
      {"one of four", {{0}, {0, 1, 2, 3}}},
      {"two and a reference apart", {{0, 1}, {2, 3}}},
      {"three and a reference on one rank", {{0, 1, 2}, {3}}},
      {"half overlapping", {{0, 1, 2}, {1, 2, 3}}},
      {"four", {{0, 1, 2, 3}, {0, 1, 2, 3}}},
      {"ZeRO 1", {{0, 1, 2, 3}, {0, 1}, 1, 1, 1}},
      {"ZeRO 2", {{0, 1, 2}, {0, 1, 2, 3}, 1, 1, 2}},
      {"ZeRO 3", {{0, 1, 2, 3}, {3}, 1, 1, 3}},
      {"two stages", {{0, 1, 2, 3}, {0, 1, 2, 3}, 1, 1, 1, "exact", 2, 2}},
      {"two stages, and a reference apart", {{0, 1}, {2, 3}, 1, 1, 0, "exact", 2, 1}},
      {"a reference of two stages", {{0, 1, 2}, {1, 3}, 1, 1, 0, "exact", 1, 2}},
  };
  for (const auto& [name, where] : placements) {
    const Result result = train(where, wanted);
    EXPECT_TRUE(result.masters.equal(one.masters)) << name;
    EXPECT_EQ(result.after.at("val/rewards/accuracies"), one.after.at("val/rewards/accuracies")) << name;
  }
}

TEST(Dpo, AFastStepComesToTheSameAsOneRanksToRounding) {
  for (const char* type : {"sigmoid", "ipo"}) {
    for (const bool reference_free : {false, true}) {
      SCOPED_TRACE(std::string(type) + (reference_free ? ", reference-free" : ""));
      Case wanted;
      wanted.loss.loss_type = type;
      wanted.loss.reference_free = reference_free;
      wanted.loss.sft_coef = 0.1;
      wanted.steps = 1;
      wanted.begins_as_reference = false;  // or rounding would decide which answer is preferred
      const Result one = train({{0}, {0}, 1, 1, 0, "fast"}, wanted, alone());
      EXPECT_GT(one.first.at("actor/grad_norm"), 1e-5);
      for (const Where& where :
           {Where{{0, 1, 2, 3}, {0, 1, 2, 3}, 1, 1, 2, "fast"}, Where{{0, 1, 2, 3}, {1, 2}, 2, 2, 1, "fast"},
            Where{{0, 1, 2, 3}, {0}, 4, 1, 0, "fast"}}) {
        const Result many = train(where, wanted);
        expect_near(many.before, one.before, 1e-5);
        expect_near(many.first, one.first, 1e-5);
      }
    }
  }
}

TEST(Dpo, APolicyThatIsItsReferenceHasNoMarginAndLosesLogTwo) {
  Case wanted;
  wanted.steps = 1;
  const Result result = train({{0, 1, 2}, {3}}, wanted);
  EXPECT_EQ(result.before.at("val/rewards/margins"), 0.0);
  EXPECT_EQ(result.before.at("val/rewards/accuracies"), 0.0);
  EXPECT_EQ(result.first.at("rewards/margins"), 0.0);
  EXPECT_NEAR(result.first.at("dpo/loss"), std::log(2.0), 1e-12);
  EXPECT_NEAR(result.before.at("val/dpo/loss"), std::log(2.0), 1e-12);
}

TEST(Dpo, TheMarginRisesOnTrainedAndOnHeldOutPairs) {
  for (const bool reference_free : {false, true}) {
    Case wanted;
    wanted.loss.reference_free = reference_free;
    wanted.steps = 20;
    wanted.lr = 3e-3;
    wanted.prefers_yes = true;
    const Result result = train({{0, 1, 2, 3}, {0, 1, 2, 3}, 1, 1, 0, "fast"}, wanted);
    EXPECT_LT(result.last.at("dpo/loss"), result.first.at("dpo/loss"));
    EXPECT_GT(result.after.at("val/rewards/margins"), result.before.at("val/rewards/margins") + 0.1);
    EXPECT_EQ(result.after.at("val/rewards/accuracies"), 1.0);
    EXPECT_EQ(result.after.at("val/logps/accuracies"), 1.0);
  }
}

TEST(Dpo, MicroBatchesDoNotChangeAStep) {
  std::vector<at::Tensor> masters;
  for (const int64_t max_rows : {1, 120, 100000}) {
    SmallRun run = small_run({{0}, {0}, 1, 1, 0, "fast"}, {});
    run.actor.ppo_max_token_len_per_rank = max_rows;
    run.actor.optim.grad_clip = 0;
    SmallRank rank(run, alone(), roles_of({{0}, {0}}, {}));
    DpoStep dpo(rank.context, run.data, {}, run.actor);
    dpo.run(0, 1, 0);
    masters.push_back(rank.models.actor_parameters->gradient().clone());
  }
  for (size_t i = 1; i < masters.size(); ++i)
    EXPECT_LT(at::linalg_vector_norm(masters[i] - masters[0]).item<double>(),
              1e-5 * at::linalg_vector_norm(masters[0]).item<double>());
}

// A checkpoint goes on in another layout with the same bits.
TEST(Dpo, ACheckpointGoesOnExactly) {
  const auto folder = std::filesystem::temp_directory_path() / ("dpo_" + std::to_string(getppid()));
  const Case wanted;
  const auto run_from = [&](const Where& where, bool first) {
    const SmallRun run = small_run(where, wanted);
    SmallRank rank(run, plan::RankEnv::from_environment(), roles_of(where, wanted));
    initialize_reference(rank, run);
    DpoStep dpo(rank.context, run.data, wanted.loss, run.actor);
    RunState state;
    state.phase = "dpo";
    state.seed = 1;
    if (first) {
      dpo.run(0, 10, 0);
      save(folder.string(), state, rank.models, rank.context.tokenizer, rank.session);
      rank.session.world().barrier();
    } else {
      RunState written = read_state(folder.string(), 1);
      restore(folder.string(), written, rank.models, rank.session);
    }
    dpo.run(1, 10, run.data.train_batch_size);
    return whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  };
  const at::Tensor straight = run_from({{0, 1}, {2, 3}}, true);
  for (const Where& where : {Where{{0, 1}, {2, 3}}, Where{{1, 2, 3}, {0}, 1, 1, 3}, Where{{3}, {0, 1, 2, 3}}})
    EXPECT_TRUE(run_from(where, false).equal(straight));
  if (plan::RankEnv::from_environment().rank == 0) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme::steps
