// One reinforcement-learning step, from prompts to new weights: the file to read first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/observe/metrics.h"
#include "trainer/algorithms/algorithm_config.h"
#include "trainer/algorithms/kl_penalty.h"
#include "trainer/algorithms/rollout_correction.h"
#include "trainer/data/data_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/batch.h"
#include "trainer/steps/batch_maker.h"
#include "trainer/steps/group.h"
#include "trainer/steps/group_stream.h"
#include "trainer/steps/policy_update.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

class OnlineStep {
 public:
  OnlineStep(StepContext& context, const data::DataConfig& data, const rollout::RolloutConfig& rollout,
             const algorithms::AlgorithmConfig& algorithm, const ActorConfig& actor,
             const CriticConfig& critic = {});

  /// Step `step` (from 0) of `total_steps`, after `taken` problems were taken by the steps before.
  /// Collective over: world; every rank walks the same stages and sits out those that are not its roles'.
  /// Rollout goes on with the batch of step + rollout.steps_ahead meanwhile, or with the rest of this one
  /// (rollout.stream). Returns the metrics of all ranks, the same everywhere: of the batch that was learned
  /// from, and of the time that this call took.
  observe::Metrics run(int64_t step, int64_t total_steps, int64_t taken);
  /// Problems that the last run() took: more than a batch where groups are filtered.
  int64_t problems_taken() const { return problems_taken_; }

  /// Whether the actor computes the log-probabilities that updates are held against. Rollout's are those
  /// wherever rollout and training compute the same bits from the same weights, and where algorithm.rollout_correction.bypass_mode
  /// says so; and a step's only update is held against itself.
  bool recomputes_old_log_probs() const { return old_policy() == OldPolicy::recomputed; }

  /// Why no mini-batch is learned from before all of the batch is there, in words for a user; empty: each one is
  /// as it comes (rollout.stream), or nothing comes by itself.
  std::string learns_late_because() const;

  /// What of a step's outcome the next ones need, beside weights: batches that are made ...
  const Batches& batches() const { return batches_; }
  /// Those of a checkpoint. What is older than rollout.steps_ahead allows is left out, with all that follows:
  /// it is generated again.
  void set_batches(Batches batches);
  /// ... and the KL's weight in the reward. On actor ranks.
  double kl_coefficient() const { return kl_.coefficient(); }
  void set_kl_coefficient(double coefficient) { kl_.set_coefficient(coefficient); }

 private:
  void make_batch(const pipeline::Lane& lane, int64_t step, int64_t taken);
  void meet();
  std::vector<Group> receive(placement::Role to);
  void reference_log_probs(std::vector<Group>& groups);
  void old_log_probs(std::vector<Group>& groups);
  void critic_values(std::vector<Group>& groups);
  void advantages(std::vector<Group>& groups);
  void update_values(std::vector<Group> groups, int64_t step, int64_t total_steps);
  void begin_updates(int64_t step, int64_t total_steps);
  void update_actor(std::vector<Group>& groups, int64_t first_id, int64_t last_id);
  void record_balance(const std::vector<Group>& groups);

  std::vector<Group> send_to(placement::Role to, std::vector<Group> groups, placement::Role from);
  void record_as(placement::Role role);
  int64_t updates_per_step() const;
  OldPolicy old_policy() const;

  StepContext& context_;
  const data::DataConfig data_;
  const rollout::RolloutConfig rollout_;
  const algorithms::AlgorithmConfig algorithm_;
  const ActorConfig actor_;
  const CriticConfig critic_;
  const int64_t mini_batch_size_, critic_mini_batch_size_;  // prompts
  algorithms::KlController kl_;
  const std::vector<algorithms::Rejection> rejections_;
  const bool goes_ahead_;
  const std::unique_ptr<GroupStream> stream_;  // where mini-batches come one by one
  BatchMaker maker_;
  const pipeline::Lane all_, making_, learning_;  // the last two are all ranks where one waits for the other
  Batches batches_;                               // from the next step's on
  PolicyUpdate update_;                           // the next one of the step
  double waited_ = 0.0;                           // seconds, for what is streamed
  int64_t problems_taken_ = 0;
  StepMetrics metrics_;
};

}  // namespace trireme::steps
