// One step of supervised fine-tuning: examples, the loss on what of them is learned, one update.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/observe/metrics.h"
#include "trainer/data/data_config.h"
#include "trainer/steps/packing.h"
#include "trainer/steps/step_config.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

class SftStep {
 public:
  /// `max_rows`: of one forward pass.
  SftStep(StepContext& context, const data::DataConfig& data, const SftConfig& sft, int64_t max_rows);

  /// Step `step` (from 0) of `total_steps`, after `taken` problems were taken by the steps before.
  /// Collective over: world. Ranks that are no actors take part in the agreement only.
  observe::Metrics run(int64_t step, int64_t total_steps, int64_t taken);

  /// The loss on all of `problems`, a mean over their learned tokens; nothing is updated. Collective over:
  /// world. The same on all ranks.
  double loss(std::span<const data::Problem> problems);

 private:
  std::vector<Example> examples_of(int64_t step, int64_t taken) const;
  void add_examples(std::vector<Example>& examples, const std::vector<data::Problem>& problems,
                    int64_t batch_size, int64_t taken, double share) const;
  void update(std::vector<Example> examples, double lr);

  StepContext& context_;
  const data::DataConfig data_;
  const SftConfig sft_;
  const int64_t max_rows_;
  StepMetrics metrics_;
};

}  // namespace trireme::steps
