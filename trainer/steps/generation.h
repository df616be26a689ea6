// Prompts to responses: what a step asks of the rollout engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainer/data/data_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/group.h"
#include "trainer/steps/judging.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

/// Which prompts, and what names them in random numbers: ids must differ within a step.
struct PromptBatch {
  int64_t step = 0;
  int64_t taken = 0;     // problems before it, in their order
  int64_t first_id = 0;  // of its first prompt
};

/// Groups, and their responses on the way to judgement: group by group, sample by sample.
struct Generated {
  std::vector<Group> groups;
  Judging judging;
};

using OnGroup = std::function<void(Generated& so_far, size_t group)>;

/// This replica's share of data.train_batch_size prompts, in ascending id, each answered n times. `on_group`
/// hears of a group as soon as all of its responses are made and handed in to judgement, while others are
/// still under way. Local to the rollout ranks, the ranks of a replica together.
Generated generate_groups(StepContext& context, const data::DataConfig& data,
                          const rollout::RolloutConfig& rollout, const PromptBatch& batch,
                          StepMetrics& metrics, const OnGroup& on_group = {});

/// The most likely response to each group's prompt, on its way to judgement: one a group. Likewise.
/// `responses` gets their tokens.
Judging greedy_responses(StepContext& context, const data::DataConfig& data, const std::vector<Group>& groups,
                         int64_t step, std::vector<Sample>& responses);

/// How full the engine was since the last call.
void record_engine(StepContext& context, StepMetrics& metrics);

/// How many tokens this replica made and read.
void record_tokens(std::span<const Group> groups, StepMetrics& metrics);

/// How long the responses are that are learned from.
void record_lengths(std::span<const Group> groups, StepMetrics& metrics);

}  // namespace trireme::steps
