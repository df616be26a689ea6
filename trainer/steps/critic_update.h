// One optimizer update of the critic: forward, loss and backward for this rank's micro-batches of a
// mini-batch, the sum over ranks, AdamW.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/steps/group.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

struct CriticUpdate {
  double lr = 0.0;
  int64_t max_response_length = 0;
  double part = 1.0;  // of the step's updates: a step's loss is the mean over them
};

/// `groups`: this rank's of the mini-batch, with values and returns. Collective over: the critic's ranks.
void update_critic(StepContext& context, std::span<Group> groups, const CriticConfig& critic,
                   const CriticUpdate& update, StepMetrics& metrics);

}  // namespace trireme::steps
