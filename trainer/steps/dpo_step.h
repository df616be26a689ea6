// One step of direct preference optimisation: pairs of answers, the reference's log-probabilities of them,
// one update of the policy.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/observe/metrics.h"
#include "trainer/data/data_config.h"
#include "trainer/losses/preference_config.h"
#include "trainer/steps/group.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

/// A pair is a Group of two samples: the chosen answer, then the rejected one.
class DpoStep {
 public:
  DpoStep(StepContext& context, const data::DataConfig& data, const losses::PreferenceLossConfig& loss,
          const ActorConfig& actor);

  /// Step `step` (from 0) of `total_steps`, after `taken` pairs were taken by the steps before.
  /// Collective over: world.
  observe::Metrics run(int64_t step, int64_t total_steps, int64_t taken);

  /// How the held-out pairs are judged, as val/...: loss, rewards, margins, accuracies. The reference judges
  /// them once: it must stay as it is from the first call on. Collective over: world; the same everywhere.
  observe::Metrics evaluate();

 private:
  std::vector<Group> read_pairs(const std::vector<data::Problem>& problems,
                                const std::vector<int64_t>& indices) const;
  void judge_by_reference(std::vector<Group>& pairs) const;
  void judge_held_out(std::vector<Group>& pairs);

  StepContext& context_;
  const data::DataConfig data_;
  const losses::PreferenceLossConfig loss_;
  const ActorConfig actor_;
  const placement::Role reader_;  // whose ranks read the pairs
  StepMetrics metrics_;
  std::optional<std::vector<Group>> held_out_;  // with the reference's log-probabilities; on actor ranks
};

}  // namespace trireme::steps
