// One reinforcement-learning step, from prompts to new weights: the file to read first.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/observe/metrics.h"
#include "trainer/algorithms/algorithm_config.h"
#include "trainer/data/data_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/group.h"
#include "trainer/steps/packing.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

class OnlineStep {
 public:
  OnlineStep(StepContext& context, const data::DataConfig& data, const rollout::RolloutConfig& rollout,
             const algorithms::AlgorithmConfig& algorithm, const ActorConfig& actor);

  /// Step `step` (from 0) of `total_steps`, after `taken` problems were taken by the steps before.
  /// Collective over: world; every rank walks the same stages and
  /// sits out those that are not its roles'. Returns the metrics of all ranks, the same everywhere.
  observe::Metrics run(int64_t step, int64_t total_steps, int64_t taken);

  /// Several updates a step are held against the policy that sampled. Rollout's log-probabilities are that
  /// policy's wherever rollout and training compute the same bits; elsewhere the actor has a stage for them.
  bool recomputes_old_log_probs() const { return !context_.models.is_exact() && updates_per_step() > 1; }

 private:
  std::vector<Group> generate(int64_t step, int64_t taken);
  void score(std::vector<Group>& groups);
  void reference_log_probs(std::vector<Group>& groups);
  void old_log_probs(std::vector<Group>& groups);
  void advantages(std::vector<Group>& groups);
  void update_actor(std::vector<Group>& groups, int64_t step, int64_t total_steps);
  void update_mini_batch(std::span<Group> groups, double lr, bool first);

  std::vector<MicroBatch> micro_batches(std::span<Group> groups) const;
  std::vector<Group> send_to(placement::Role to, std::vector<Group> groups, placement::Role from);
  void record_as(placement::Role role);
  int64_t updates_per_step() const;

  StepContext& context_;
  const data::DataConfig data_;
  const rollout::RolloutConfig rollout_;
  const algorithms::AlgorithmConfig algorithm_;
  const ActorConfig actor_;
  const int64_t mini_batch_size_;  // prompts
  StepMetrics metrics_;
};

}  // namespace trireme::steps
