// Whole steps and checkpoints of models whose layers are shared out to stages, on four MPI ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "tests/trainer/steps/small_run.h"
#include "tests/trainer/steps/whole_masters.h"
#include "trainer/steps/run_state.h"
#include "trainer/steps/supervised_update.h"

namespace trireme::steps {
namespace {

namespace fs = std::filesystem;

const std::vector<int> kAll{0, 1, 2, 3};

struct Where {
  std::vector<int> actor = kAll, rollout = kAll, reference = kAll;
  placement::ReplicaAxes axes, reference_axes;
  int rollout_tp = 1;
  int64_t zero_stage = 0;
  const char* reduce = "exact";
  bool tied = false;
};

SmallRun run_of(const Where& where) {
  SmallRun run;
  run.shape.num_hidden_layers = 4;
  run.shape.tie_word_embeddings = where.tied;
  run.parallel.zero_stage = where.zero_stage;
  run.parallel.reduce = where.reduce;
  run.actor.optim.grad_clip = 1.0;
  run.actor.ppo_max_token_len_per_rank = 60;  // several micro-batches
  return run;
}

placement::RoleRanks roles_of(const Where& where) {
  placement::RoleRanks roles{.actor = where.actor, .reference = where.reference, .rollout = where.rollout};
  roles.axes = {.actor = where.axes, .reference = where.reference_axes, .rollout = {.tp = where.rollout_tp}};
  return roles;
}

plan::RankEnv job() {
  return plan::RankEnv::from_environment();
}

struct Result {
  at::Tensor masters;
  observe::Metrics last;
};

Result grpo(const Where& where, int64_t steps, at::ScalarType dtype = at::kFloat) {
  const SmallRun run = run_of(where);
  SmallRank rank(run, job(), roles_of(where), dtype);
  Result result;
  for (int64_t step = 0; step < steps; ++step)
    result.last = OnlineStep(rank.context, run.data, run.rollout, run.algorithm, run.actor)
                      .run(step, 10, step * run.data.train_batch_size);
  result.masters = whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  return result;
}

void expect_same_metrics(const observe::Metrics& ours, const observe::Metrics& expected, double tolerance) {
  for (const auto& [name, value] : expected) {
    if (name.starts_with("rollout/") || name.starts_with("global_seqlen/") || name.starts_with("perf/"))
      continue;
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_NEAR(ours.at(name), value, tolerance * (1 + std::abs(value))) << name;
  }
}

TEST(Pipelines, ExactStepsHaveTheBitsOfPlainOnes) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Result plain = grpo({}, 2, dtype);
    const std::map<std::string, Where> in_fp32{
        {"four stages", {.axes = {.pp = 4}, .reference_axes = {.pp = 2}}},
        {"ZeRO 1", {.axes = {.pp = 2}, .zero_stage = 1}},
        {"ZeRO 2", {.axes = {.pp = 2}, .reference_axes = {.pp = 4}, .zero_stage = 2}},
        {"apart",
         {.actor = {2, 3},
          .rollout = {0, 1},
          .reference = {0, 3},
          .axes = {.pp = 2},
          .reference_axes = {.pp = 2}}},
        {"overlapping", {.actor = {0, 1, 2}, .rollout = {1, 2, 3}, .axes = {.pp = 3}}},
    };
    const std::map<std::string, Where> in_bf16{
        {"two stages", {.axes = {.pp = 2}, .reference_axes = {.pp = 2}}}};
    for (const auto& [name, where] : dtype == at::kFloat ? in_fp32 : in_bf16) {
      SCOPED_TRACE(name);
      const Result result = grpo(where, 2, dtype);
      EXPECT_TRUE(result.masters.equal(plain.masters));
      EXPECT_EQ(result.last.at("training/rollout_probs_diff_max"), 0.0);
      expect_same_metrics(result.last, plain.last, 1e-9);
    }
  }
}

TEST(Pipelines, SoTheyHaveWithTensorParallelism) {
  const Result plain = grpo({.axes = {.tp = 2}, .rollout_tp = 2}, 2);
  const Result stages = grpo({.axes = {.pp = 2, .tp = 2}, .reference_axes = {.pp = 2}, .rollout_tp = 2}, 2);
  EXPECT_TRUE(stages.masters.equal(plain.masters));
  EXPECT_EQ(stages.last.at("training/rollout_probs_diff_max"), 0.0);
  expect_same_metrics(stages.last, plain.last, 1e-9);
}

TEST(Pipelines, AndWithContextParallelism) {
  const Result plain = grpo({.axes = {.cp = 2}}, 2);
  const Result stages = grpo({.axes = {.pp = 2, .cp = 2}, .reference_axes = {.pp = 2}}, 2);
  EXPECT_TRUE(stages.masters.equal(plain.masters));
  EXPECT_EQ(stages.last.at("training/rollout_probs_diff_max"), 0.0);
  expect_same_metrics(stages.last, plain.last, 1e-9);
}

// whole_masters() sees to it that both copies of the embedding are the same bits.
TEST(Pipelines, TiedEmbeddingsStayOneMatrix) {
  const Result two = grpo({.axes = {.pp = 2}, .tied = true}, 2);
  for (const Where& where :
       {Where{.axes = {.pp = 4}, .tied = true}, Where{.axes = {.pp = 2}, .zero_stage = 1, .tied = true},
        Where{.axes = {.pp = 2}, .zero_stage = 2, .tied = true}})
    EXPECT_TRUE(grpo(where, 2).masters.equal(two.masters));
  const Result plain = grpo({.tied = true}, 1), stages = grpo({.axes = {.pp = 2}, .tied = true}, 1);
  // Adam's first step is lr times a sign: what is near zero may turn, little moves.
  EXPECT_LT(at::linalg_vector_norm(stages.masters - plain.masters).item<double>(),
            1e-3 * at::linalg_vector_norm(plain.masters).item<double>());
  EXPECT_NEAR(stages.last.at("actor/grad_norm"), plain.last.at("actor/grad_norm"),
              1e-5 * plain.last.at("actor/grad_norm"));
}

TEST(Pipelines, AFastStepComesToThePlainOneToRounding) {
  const Result plain = grpo({.reduce = "fast"}, 1);
  for (const Where& where : {Where{.axes = {.pp = 2}, .reduce = "fast"},
                             Where{.axes = {.pp = 4}, .reference_axes = {.pp = 2}, .reduce = "fast"},
                             Where{.axes = {.pp = 2}, .zero_stage = 2, .reduce = "fast"}}) {
    const Result result = grpo(where, 1), again = grpo(where, 1);
    EXPECT_LT(at::linalg_vector_norm(result.masters - plain.masters).item<double>(),
              1e-3 * at::linalg_vector_norm(plain.masters).item<double>());
    expect_same_metrics(result.last, plain.last, 1e-4);
    EXPECT_TRUE(result.masters.equal(again.masters));
  }
}

TEST(Pipelines, SupervisedStepsAndTheirLossAreThePlainOnes) {
  const auto train = [](const Where& where) {
    const SmallRun run = run_of(where);
    SmallRank rank(run, job(), roles_of(where));
    SftStep sft(rank.context, run.data, run.sft, 60);
    Result result;
    for (int64_t step = 0; step < 2; ++step) result.last = sft.run(step, 2, step * run.sft.train_batch_size);
    result.last["loss"] = sft.loss(rank.problems.val);
    result.masters = whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
    return result;
  };
  const Result plain = train({});
  for (const Where& where :
       {Where{.axes = {.pp = 2}}, Where{.axes = {.pp = 4}}, Where{.actor = {1, 3}, .axes = {.pp = 2}}}) {
    const Result result = train(where);
    EXPECT_TRUE(result.masters.equal(plain.masters));
    expect_same_metrics(result.last, plain.last, 1e-6);
  }
}

TEST(Pipelines, MoreStagesThanLayersAreRefused) {
  Where where{.axes = {.pp = 4}};
  SmallRun run = run_of(where);
  run.shape.num_hidden_layers = 3;
  try {
    SmallRank rank(run, job(), roles_of(where));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(std::string(error.what()).find("set pp to at most 3"), std::string::npos) << error.what();
  }
}

std::map<std::string, std::string> weight_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".safetensors")
      files[fs::relative(entry.path(), folder)] = files::read(entry.path());
  return files;
}

// A step, a checkpoint, and another step: straight on, or from a checkpoint of another layout.
TEST(Pipelines, CheckpointsHaveTheBytesOfPlainOnesAndGoOnInAnyLayout) {
  for (const bool tied : {false, true}) {
    const auto top = fs::temp_directory_path() / ("pipelines_" + std::to_string(getppid()));
    const auto step_on = [&](const SmallRun& run, SmallRank& rank, int64_t step) {
      OnlineStep(rank.context, run.data, run.rollout, run.algorithm, run.actor)
          .run(step, 10, step * run.data.train_batch_size);
      return whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
    };
    const auto begin = [&](const Where& where, const fs::path& folder) {
      const SmallRun run = run_of(where);
      SmallRank rank(run, job(), roles_of(where));
      step_on(run, rank, 0);
      RunState state;
      state.phase = "grpo";
      state.seed = 1;
      state.step = 1;
      save(folder.string(), state, rank.models, rank.context.tokenizer, rank.session);
      rank.session.world().barrier();
      return step_on(run, rank, 1);
    };
    const auto go_on = [&](const Where& where, const fs::path& folder) {
      const SmallRun run = run_of(where);
      SmallRank rank(run, job(), roles_of(where));
      RunState written = read_state(folder.string(), 1);
      restore(folder.string(), written, rank.models, rank.session);
      return step_on(run, rank, 1);
    };
    const Where plain{.tied = tied}, two{.axes = {.pp = 2}, .reference_axes = {.pp = 2}, .tied = tied},
        four{.axes = {.pp = 4}, .tied = tied}, shared{.axes = {.pp = 2}, .zero_stage = 1, .tied = tied};
    const at::Tensor straight = begin(plain, top / "plain"), of_two = begin(two, top / "two");
    begin(four, top / "four");
    begin(shared, top / "shared");
    const auto bytes = weight_files(top / "two");
    EXPECT_GE(bytes.size(), 3u);
    EXPECT_EQ(bytes, weight_files(top / "four"));
    EXPECT_EQ(bytes, weight_files(top / "shared"));
    if (!tied) {
      EXPECT_EQ(bytes, weight_files(top / "plain"));
    }
    for (const Where& where : {two, four, shared, plain})
      for (const char* folder : {"two", "plain"}) {
        const at::Tensor masters = go_on(where, top / folder);
        if (!tied)
          EXPECT_TRUE(masters.equal(straight)) << folder;
        else if (where.axes.pp > 1 && folder == std::string("two"))
          EXPECT_TRUE(masters.equal(of_two)) << folder;
        else  // AdamW's signs spread rounding
          EXPECT_LT(at::linalg_vector_norm(masters - straight).item<double>(),
                    2e-3 * at::linalg_vector_norm(straight).item<double>());
      }
    if (job().rank == 0) fs::remove_all(top);
    const SmallRun run = run_of(plain);
    SmallRank(run, job(), roles_of(plain)).session.world().barrier();  // nobody begins before it is gone
  }
}

}  // namespace
}  // namespace trireme::steps
