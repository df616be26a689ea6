// Prompts to responses: what a step asks of the rollout engine.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/data_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/group.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

/// Which prompts, and what names them in random numbers: ids must differ within a step.
struct PromptBatch {
  int64_t step = 0;
  int64_t taken = 0;     // problems before it, in their order
  int64_t first_id = 0;  // of its first prompt
};

/// This replica's share of data.train_batch_size prompts, each answered n times. Local to the rollout ranks,
/// the ranks of a replica together.
std::vector<Group> generate_groups(StepContext& context, const data::DataConfig& data,
                                   const rollout::RolloutConfig& rollout, const PromptBatch& batch,
                                   StepMetrics& metrics);

/// The most likely response to each group's prompt. Likewise.
std::vector<std::vector<int32_t>> greedy_responses(StepContext& context, const data::DataConfig& data,
                                                   const std::vector<Group>& groups, int64_t step);

/// How full the engine was since the last call.
void record_engine(StepContext& context, StepMetrics& metrics);

}  // namespace trireme::steps
