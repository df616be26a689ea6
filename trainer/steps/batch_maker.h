// Rollout's side of a step: prompts to responses to scores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/pipeline/stage.h"
#include "trainer/algorithms/algorithm_config.h"
#include "trainer/data/data_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/batch.h"
#include "trainer/steps/generation.h"
#include "trainer/steps/group.h"
#include "trainer/steps/group_stream.h"
#include "trainer/steps/judging.h"
#include "trainer/steps/step_context.h"

namespace trireme::steps {

class BatchMaker {
 public:
  /// `stream` (null: none) takes groups to training while others are made.
  BatchMaker(StepContext& context, const data::DataConfig& data, const rollout::RolloutConfig& rollout,
             const algorithms::AlgorithmConfig& algorithm, GroupStream* stream);

  /// Fills `batch`, whose step is set, from the problems behind `taken`, by the weights that rollout has. What is
  /// streamed has left it already. Collective over: `lane`, which has all ranks of rollout and of a reward model;
  /// the others pass by.
  void make(const pipeline::Lane& lane, int64_t taken, Batch& batch);

  /// Scores may be waited for late, while models read the batch: nothing before the advantages asks for them,
  /// unless groups are chosen by them, or rollout does not wait for the others.
  bool scores_late() const;
  /// To the actor's groups, where they are late. Collective over: world, whose lane `all` is.
  void bring_scores(const pipeline::Lane& all, std::vector<Group>& groups, StepMetrics& metrics);

 private:
  void score(std::vector<Group>& groups, StepMetrics& metrics);
  void generate(Batch& batch, int64_t taken, int64_t first_id, std::vector<Group>& groups);
  void send_finished(std::vector<Group>& groups, Judging& judging, bool all);
  void greedy_scores(std::vector<Group>& groups, Batch& batch);
  void model_scores(const pipeline::Lane& lane, std::vector<Group>& groups, Batch& batch);
  void set_score(Sample& sample, const rewards::Score& score) const;
  double overlong_penalty(int64_t response_length) const;
  bool has_greedy() const;

  StepContext& context_;
  const data::DataConfig data_;
  const rollout::RolloutConfig rollout_;
  const algorithms::AlgorithmConfig algorithm_;
  GroupStream* const stream_;
  std::optional<Judging> judging_;  // of the batch at hand
  std::vector<Group> judged_;       // which stay here until their scores are known, where those are late
  std::vector<Group> greedy_;       // this rank's prompts with their greedy responses
  std::vector<bool> is_whole_;      // streaming: of this replica's groups, which have all responses
  int64_t parts_sent_ = 0;
};

}  // namespace trireme::steps
