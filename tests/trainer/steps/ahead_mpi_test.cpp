// Rollout that generates for later steps, on ranks of its own, while the others learn.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <ATen/TensorOperators.h>

#include "tests/trainer/steps/small_run.h"
#include "tests/trainer/steps/whole_masters.h"
#include "trainer/steps/batch.h"
#include "trainer/steps/token_values.h"

namespace trireme::steps {
namespace {

namespace fs = std::filesystem;
using placement::Role;

plan::RankEnv env() {
  return plan::RankEnv::from_environment();
}

// Four ranks: the actor on two, rollout on the last one or two, the others' on the rank between, if there is
// one.
placement::RoleRanks apart(int rollout_ranks = 1, bool critic = false) {
  placement::RoleRanks roles;
  roles.actor = {0, 1};
  roles.reference = {rollout_ranks == 1 ? 2 : 1};
  if (critic) roles.critic = {rollout_ranks == 1 ? 2 : 0};
  for (int rank = 4 - rollout_ranks; rank < 4; ++rank) roles.rollout.push_back(rank);
  return roles;
}

SmallRun run_ahead(int64_t steps_ahead) {
  SmallRun run;
  run.rollout.steps_ahead = steps_ahead;
  run.parallel.reduce = "exact";
  run.critic_parallel.reduce = "exact";
  run.actor.optim.lr = 1e-2;
  return run;
}

// A run of a few steps, with what was seen on the way.
struct Walk {
  SmallRank rank;
  OnlineStep online;
  int64_t taken = 0;
  std::vector<observe::Metrics> metrics;

  Walk(const SmallRun& run, const placement::RoleRanks& roles)
      : rank(run, env(), roles),
        online(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic) {}

  void steps(int64_t from, int64_t to, int64_t total) {
    for (int64_t step = from; step < to; ++step) {
      metrics.push_back(online.run(step, total, taken));
      taken += online.problems_taken();
    }
  }
  at::Tensor masters(const SmallRun& run) {
    return whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  }
};

TEST(Ahead, WithoutStepsAheadRolloutApartEndsInTheColocatedBits) {
  const SmallRun run = run_ahead(0);
  Walk together(run, everyone(4)), separate(run, apart(2));
  together.steps(0, 4, 4);
  separate.steps(0, 4, 4);
  EXPECT_TRUE(together.masters(run).equal(separate.masters(run)));
  EXPECT_EQ(separate.metrics.back().count("training/staleness"), 0u);
}

TEST(Ahead, TheNumberOfRolloutRanksDoesNotMatter) {
  for (const int64_t ahead : {1, 2}) {
    SmallRun run = run_ahead(ahead);
    Walk one(run, apart(1)), two(run, apart(2));
    one.steps(0, 4, 4);
    two.steps(0, 4, 4);
    EXPECT_TRUE(one.masters(run).equal(two.masters(run)));
    SmallRun at_once = run_ahead(0);
    Walk synchronous(at_once, apart(2));
    synchronous.steps(0, 4, 4);
    EXPECT_FALSE(two.masters(run).equal(synchronous.masters(run)));
  }
}

// What the sampler recorded is held against the training forward of every step's weights: a batch has the
// log-probabilities of those that it says it was made by, bit for bit, and of no others.
TEST(Ahead, ABatchIsMadeByTheWeightsOfSoManyStepsBefore) {
  for (const int64_t ahead : {1, 2, 3}) {
    const SmallRun run = run_ahead(ahead);
    Walk walk(run, apart());
    RoleModels& models = walk.rank.models;
    const bool is_rollout = walk.rank.session.has(Role::rollout);
    std::vector<at::Tensor> weights;  // by steps learned from
    std::map<int64_t, Batch> made;
    constexpr int64_t kSteps = 6;
    for (int64_t step = 0; step < kSteps; ++step) {
      if (is_rollout) weights.push_back(models.rollout_parameters->flat().clone());
      walk.steps(step, step + 1, kSteps);
      for (const Batch& batch : walk.online.batches()) made.try_emplace(batch.step, batch);
      EXPECT_EQ(walk.metrics.back().at("training/staleness"), std::min(step, ahead));
      EXPECT_EQ(static_cast<int64_t>(walk.online.batches().size()), std::min(ahead, kSteps - 1 - step));
    }
    for (const auto& [step, batch] : made) {
      EXPECT_EQ(batch.weights, std::max<int64_t>(0, step - ahead));
      EXPECT_EQ(batch.taken, run.data.train_batch_size);
      if (!is_rollout) {
        EXPECT_TRUE(batch.groups.empty());
        continue;
      }
      ASSERT_EQ(batch.groups.size(), 6u);
      for (int64_t learned = 0; learned < kSteps; ++learned) {
        models::ParameterSet parameters(models::parameter_specs(run.shape), at::kCPU);
        parameters.flat().copy_(weights[static_cast<size_t>(learned)]);
        models::Decoder decoder(run.shape, parameters, at::kFloat);
        decoder.refresh();
        sharding::Pipeline passes(decoder, nullptr, nullptr);
        std::vector<Group> groups = batch.groups;
        int64_t same = 0, all = 0;
        score_tokens(passes, groups, 1.0, 150, [&](Sample& sample, std::vector<float> log_probs) {
          same += log_probs == sample.rollout_log_probs ? 1 : 0;
          ++all;
        });
        EXPECT_EQ(same, learned == batch.weights ? all : 0)
            << "batch " << step << " under the weights after " << learned << " steps, ahead " << ahead;
      }
    }
  }
}

TEST(Ahead, AStepLearnsFromItsOwnBatchAndTellsOfIt) {
  const SmallRun run = run_ahead(1);
  Walk walk(run, apart());
  for (int64_t step = 0; step < 4; ++step) {
    double length = 0.0, samples = 0.0;
    if (step > 0)
      for (const Group& group : walk.online.batches().front().groups)
        for (const Sample& sample : group.samples) {
          length += static_cast<double>(sample.length());
          samples += 1.0;
        }
    walk.steps(step, step + 1, 4);
    const observe::Metrics& metrics = walk.metrics.back();
    if (step > 0 && samples > 0) {
      EXPECT_NEAR(metrics.at("response_length/mean"), length / samples, 1e-9);
    }
    for (const auto& [name, value] : metrics) EXPECT_TRUE(observe::is_documented(name)) << name;
    EXPECT_EQ(metrics.at("perf/total_num_tokens") > 0, true);
    // The first batch is of the very weights that learn from it: nothing to correct.
    const double least = metrics.at("rollout_corr/rollout_is/min"), most = metrics.at("rollout_corr/rollout_is/max");
    if (step == 0) {
      EXPECT_EQ(least, 1.0);
      EXPECT_EQ(most, 1.0);
      EXPECT_EQ(metrics.at("training/rollout_probs_diff_max"), 0.0);
    } else {
      EXPECT_LT(least, 1.0);
      EXPECT_GT(most, 1.0);
      EXPECT_LE(most, run.algorithm.rollout_correction.rollout_is_threshold);
      EXPECT_GT(metrics.at("training/rollout_probs_diff_max"), 0.0);
    }
  }
}

TEST(Ahead, CorrectionsAreThoseThatAreAskedFor) {
  SmallRun run = run_ahead(1);
  run.algorithm.rollout_correction.rollout_is = "none";
  Walk plain(run, apart());
  plain.steps(0, 3, 3);
  EXPECT_EQ(plain.metrics.back().count("rollout_corr/rollout_is/mean"), 0u);
  EXPECT_FALSE(plain.online.recomputes_old_log_probs());  // the step's only update is held against itself
  run.algorithm.rollout_correction = {};
  run.algorithm.rollout_correction.bypass_mode = true;
  Walk bypass(run, apart());
  bypass.steps(0, 3, 3);
  EXPECT_FALSE(bypass.online.recomputes_old_log_probs());
  EXPECT_NE(bypass.metrics.back().at("actor/ppo_kl"), 0.0);  // held against the older policy
  EXPECT_EQ(plain.metrics.back().at("actor/ppo_kl"), 0.0);
  run.algorithm.rollout_correction = {};
  run.algorithm.rollout_correction.rollout_is_threshold = 1.01;
  run.algorithm.rollout_correction.rollout_is_threshold_low = 0.99;
  Walk masked(run, apart());
  masked.steps(0, 3, 3);
  EXPECT_TRUE(masked.online.recomputes_old_log_probs());
  EXPECT_EQ(masked.metrics.back().at("rollout_corr/rollout_is/min"), 0.0);
}

// Each algorithm's own stages on both lanes; dynamic sampling decides by itself how many problems it takes.
TEST(Ahead, GoesWithCriticGreedyBaselineAndDynamicSampling) {
  for (const char* estimator : {"gae", "remax", "rloo"}) {
    SmallRun run = run_ahead(2);
    run.algorithm.adv_estimator = estimator;
    run.actor.ppo_mini_batch_size = 3;
    const bool critic = run.algorithm.adv_estimator == "gae";
    run.algorithm.filter_groups.enable = run.algorithm.adv_estimator == "rloo";
    run.algorithm.filter_groups.metric = "score";
    Walk one(run, apart(1, critic)), two(run, apart(2, critic));
    one.steps(0, 4, 4);
    two.steps(0, 4, 4);
    EXPECT_TRUE(one.masters(run).equal(two.masters(run))) << estimator;
    EXPECT_EQ(one.taken, two.taken);
    EXPECT_GE(one.taken, 4 * run.data.train_batch_size);
    EXPECT_EQ(one.rank.session.world().all_reduce_scalar(static_cast<double>(one.taken), comm::ReduceOp::max),
              one.taken);
    EXPECT_EQ(one.metrics.back().count("critic/grad_norm"), critic ? 1u : 0u);
  }
}

// As a checkpoint has it: weights, the optimizer, and what was generated by weights that are gone.
TEST(Ahead, GoesOnFromBatchesOnDiskOnAnotherNumberOfRanks) {
  const SmallRun run = run_ahead(2);
  const std::string name = "trireme-ahead-" + std::to_string(env().rank == 0 ? ::getpid() : 0);
  Walk straight(run, apart(2)), second(run, apart(1));
  const fs::path folder =
      fs::temp_directory_path() / straight.rank.session.world().broadcast_string(name, 0) / "batches";
  straight.steps(0, 2, 5);
  save_batches(folder, straight.online.batches(), straight.rank.session);
  straight.rank.session.world().barrier();

  Batches batches;
  for (const Batch& batch : straight.online.batches())
    batches.push_back({.step = batch.step, .weights = batch.weights, .taken = batch.taken});
  ASSERT_EQ(batches.size(), 2u);
  if (second.rank.session.has(Role::rollout)) load_batches(folder, batches, second.rank.session);
  second.steps(0, 2, 5);  // brings weights and moments to where they were
  const Batches own = second.online.batches();
  if (second.rank.session.has(Role::rollout)) {
    for (size_t b = 0; b < own.size(); ++b) {
      std::map<int64_t, std::string> read, made;
      for (const Group& group : batches[b].groups) read[group.id] = pack(group);
      for (const Group& group : own[b].groups) made[group.id] = pack(group);
      EXPECT_EQ(read.size(), 6u);
      EXPECT_TRUE(read == made);
    }
    std::ofstream(folder / "step_3.0.bin", std::ios::binary | std::ios::trunc) << "12345678";
    Batches again{{.step = 3}};
    EXPECT_THROW(load_batches(folder, again, second.rank.session), Error);
    Batches missing{{.step = 9}};
    EXPECT_THROW(load_batches(folder, missing, second.rank.session), Error);
  }
  second.online.set_batches(batches);
  straight.steps(2, 5, 5);
  second.steps(2, 5, 5);
  EXPECT_TRUE(straight.masters(run).equal(second.masters(run)));
  EXPECT_EQ(straight.metrics[2].at("response_length/mean"), second.metrics[2].at("response_length/mean"));
  second.rank.session.world().barrier();
  if (env().rank == 0) fs::remove_all(folder.parent_path());
}

TEST(Ahead, BatchesOlderThanIsAllowedAreMadeAgain) {
  const SmallRun run = run_ahead(1);
  Walk walk(run, apart());
  walk.online.set_batches({{.step = 4, .weights = 2}, {.step = 5, .weights = 3}});
  EXPECT_TRUE(walk.online.batches().empty());
  walk.online.set_batches({{.step = 1, .weights = 0}, {.step = 2, .weights = 0}, {.step = 3, .weights = 2}});
  EXPECT_EQ(walk.online.batches().size(), 1u);  // a place in the problems' order follows from those before
}

}  // namespace
}  // namespace trireme::steps
