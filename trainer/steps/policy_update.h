// One optimizer update of the policy: forward, loss and backward for this rank's micro-batches of a
// mini-batch, the sum over ranks, AdamW.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/steps/group.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

/// Whose log-probabilities the update is held against.
enum class OldPolicy {
  sampled,     // those that rollout recorded
  recomputed,  // the actor's own, of before the step's updates
  itself       // the policy that is updated: a step's only update
};

struct PolicyUpdate {
  double lr = 0.0;
  double temperature = 1.0;
  int64_t max_response_length = 0;
  OldPolicy old = OldPolicy::sampled;
  bool first = true;  // of the step: the actor is the policy that sampled
  double part = 1.0;  // of the step's updates: a step's loss is the mean over them
  uint64_t seed = 0;  // of this update's random choices
};

/// `groups`: this rank's of the mini-batch, with advantages. Collective over: the actor's ranks.
void update_policy(StepContext& context, std::span<Group> groups, const ActorConfig& actor,
                   const PolicyUpdate& update, StepMetrics& metrics);

}  // namespace trireme::steps
