// One round of rejection sampling fine-tuning: the policy answers prompts, what the verifier accepts is kept,
// and the policy is fine-tuned on that. Source: Yuan et al., arXiv:2308.01825 (RFT); with rounds from the
// base model, Zelikman et al., arXiv:2203.14465 (STaR), and Singh et al., arXiv:2312.06585 (ReST-EM).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/observe/metrics.h"
#include "trainer/data/data_config.h"
#include "trainer/rollout/rollout_config.h"
#include "trainer/steps/group.h"
#include "trainer/steps/judging.h"
#include "trainer/steps/kept_samples.h"
#include "trainer/steps/packing.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

class RftStep {
 public:
  /// `to_base` brings the weights that the run began with back to the actor, and an optimizer that knows
  /// nothing; called on the actor's ranks, together.
  RftStep(StepContext& context, const data::DataConfig& data, const rollout::RolloutConfig& rollout,
          const RftConfig& rft, const ActorConfig& actor, std::function<void()> to_base);

  /// Round `step` (from 0) of `total_steps`, after `taken` problems were taken by the rounds before.
  /// Collective over: world. Returns the metrics of all ranks, the same everywhere.
  observe::Metrics run(int64_t step, int64_t total_steps, int64_t taken);

  /// What of a round's outcome the next one needs, beside weights (rft.accumulate). The same on all ranks.
  const KeptSamples& kept() const { return kept_; }
  void set_kept(KeptSamples kept) { kept_ = std::move(kept); }

 private:
  void judge(std::vector<Group>& groups, Judging& judging);
  std::vector<Group> accepted(std::vector<Group> groups);
  void gather(std::vector<Group> mine);
  void fine_tune(int64_t step, int64_t total_steps);
  std::vector<Example> mini_batch(int64_t first, int64_t end, uint64_t key) const;

  StepContext& context_;
  const data::DataConfig data_;
  const rollout::RolloutConfig rollout_;
  const RftConfig rft_;
  const ActorConfig actor_;
  const std::function<void()> to_base_;
  KeptSamples kept_;
  StepMetrics metrics_;
};

}  // namespace trireme::steps
