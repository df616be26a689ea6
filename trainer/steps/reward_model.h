// Responses judged by a reward model: sent to its ranks, read there, and their numbers brought back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/data/other_reader.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/steps/group.h"
#include "trainer/steps/packing.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

/// What a reward model reads, and what its number is worth. The same on all ranks.
struct RewardModelInput {
  std::optional<data::OtherReader> reader;  // none: the policy's tokens as they are
  std::optional<int32_t> pad;               // a sequence is judged at its last token that is another one
  int64_t max_length = 0;                   // tokens that it takes; of longer texts it reads the end
  int64_t max_rows = 0;                     // of one pass on one rank
  double weight = 1.0;                      // in the reward
  bool alone = false;                       // nothing else says which answers are right
};

/// One judgement of a batch of groups. The number of a sequence depends on it and the model's layout alone: on
/// the CPU it is the same bits in any batch.
class ModelJudging {
 public:
  /// `problems`: those that Group::problem counts; the same on all ranks.
  ModelJudging(StepContext& context, std::span<const data::Problem> problems)
      : context_(context), problems_(problems) {}

  /// Prompts and responses of the rollout ranks' groups, balanced by cost; ids must differ. Collective over:
  /// as send_groups().
  void send(const std::vector<Group>& groups);
  /// Records reward/model/*. On the reward model's ranks, those of a replica together. Throws what
  /// data::tokens_for() throws.
  void judge(StepMetrics& metrics);
  /// Fills Sample::model_score of the rollout ranks' groups. Collective over: as send_groups().
  void bring_back(std::vector<Group>& groups);

 private:
  JudgedSequences sequences_of(const Group& group) const;

  StepContext& context_;
  std::span<const data::Problem> problems_;
  std::vector<Group> groups_;  // of this rank's replica of the reward model
};

/// For evaluations of `problems`; nothing where there is no reward model.
evaluation::ModelScores model_scores(StepContext& context, std::span<const data::Problem> problems);

/// All of it, in stages "exchange", "reward_model", "exchange" of `lane`, which has the ranks of rollout and of
/// the reward model. Collective over: the lane's ranks; the others pass by.
void judge_by_model(StepContext& context, const pipeline::Lane& lane, std::vector<Group>& groups,
                    StepMetrics& metrics);

}  // namespace trireme::steps
