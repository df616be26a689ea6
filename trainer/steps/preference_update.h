// One optimizer update of the policy from pairs of answers: forward, loss and backward for this rank's
// micro-batches, the sum over ranks, AdamW.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

#include "trainer/losses/preference_loss.h"
#include "trainer/steps/group.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

struct PreferenceUpdate {
  double lr = 0.0;
  int64_t num_pairs = 0;  // of the whole mini-batch, over all ranks: the loss is the mean over them
};

/// `pairs`: this rank's, each of two samples, the chosen answer and the rejected one, with the reference's
/// log-probabilities unless reference_free. Collective over: the actor's ranks.
void update_preferences(StepContext& context, std::span<Group> pairs, const ActorConfig& config,
                        const losses::PreferenceLossConfig& loss_config, const PreferenceUpdate& update,
                        StepMetrics& metrics);

/// Rewards and log-probabilities of pairs as metrics. `log_probs_P2`: of chosen and rejected answers.
void record_preferences(const std::string& prefix, const losses::PreferencePairs& pairs,
                        const losses::PreferenceLossConfig& config, const at::Tensor& log_probs_P2,
                        StepMetrics& metrics);

}  // namespace trireme::steps
