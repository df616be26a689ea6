// One reinforcement-learning step, from prompts to new weights: the file to read first.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/observe/metrics.h"
#include "trainer/algorithms/algorithm_config.h"
#include "trainer/algorithms/kl_penalty.h"
#include "trainer/algorithms/rollout_correction.h"
#include "trainer/data/data_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/group.h"
#include "trainer/steps/policy_update.h"
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
  /// Problems that the last run() took: more than a batch where groups are filtered.
  int64_t problems_taken() const { return problems_taken_; }

  /// Whether the actor computes the log-probabilities that updates are held against. Rollout's are those
  /// wherever rollout and training compute the same bits, and where algorithm.rollout_correction.bypass_mode
  /// says so; and a step's only update is held against itself.
  bool recomputes_old_log_probs() const { return old_policy() == OldPolicy::recomputed; }

  /// What of a step's outcome the next one needs, beside weights: the KL's weight in the reward. On actor
  /// ranks.
  double kl_coefficient() const { return kl_.coefficient(); }
  void set_kl_coefficient(double coefficient) { kl_.set_coefficient(coefficient); }

 private:
  std::vector<Group> generate(int64_t step, int64_t taken, int64_t first_id);
  void greedy_scores(std::vector<Group>& groups, int64_t step);
  void score(std::vector<Group>& groups);
  void record_batch(const std::vector<Group>& groups);
  void reference_log_probs(std::vector<Group>& groups);
  void old_log_probs(std::vector<Group>& groups);
  void advantages(std::vector<Group>& groups);
  void update_actor(std::vector<Group>& groups, int64_t step, int64_t total_steps);

  double score_of(const Group& group, const std::vector<int32_t>& response, bool* correct) const;
  std::vector<Group> send_to(placement::Role to, std::vector<Group> groups, placement::Role from);
  void record_as(placement::Role role);
  int64_t updates_per_step() const;
  OldPolicy old_policy() const;

  StepContext& context_;
  const data::DataConfig data_;
  const rollout::RolloutConfig rollout_;
  const algorithms::AlgorithmConfig algorithm_;
  const ActorConfig actor_;
  const int64_t mini_batch_size_;  // prompts
  algorithms::KlController kl_;
  const std::vector<algorithms::Rejection> rejections_;
  int64_t problems_taken_ = 0;
  StepMetrics metrics_;
};

}  // namespace trireme::steps
