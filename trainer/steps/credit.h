// From what a response was worth to what each of its tokens was: KL in the reward, the estimator, and what it
// needs of the whole batch; then how far rollout's policy was another one than that which is trained.
#pragma once

#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "trainer/algorithms/algorithm_config.h"
#include "trainer/algorithms/kl_penalty.h"
#include "trainer/algorithms/rollout_correction.h"
#include "trainer/steps/group.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

/// Rewards and advantages of all samples; `kl` is brought up to date. The same bits however groups lie on
/// ranks. Collective over: `replicas`, the actor's dp ranks.
void assign_credit(std::vector<Group>& groups, const algorithms::AlgorithmConfig& config,
                   algorithms::KlController& kl, comm::Communicator& replicas, StepMetrics& metrics);

/// Importance weights and masks of all samples. Advantages stay those of the whole responses. Local.
void correct_rollout(std::vector<Group>& groups, const algorithms::RolloutCorrection& config,
                     std::span<const algorithms::Rejection> rejections, StepMetrics& metrics);

}  // namespace trireme::steps
