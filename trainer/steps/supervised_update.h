// One optimizer update on examples, of which the loss is the cross-entropy of their learned tokens: what
// supervised fine-tuning and rejection sampling share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/steps/packing.h"
#include "trainer/steps/step_context.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

struct SupervisedUpdate {
  double lr = 0.0;
  int64_t max_rows = 0;  // of one forward pass, on each rank that shares it
  std::string prefix;    // of the metrics' names: PREFIX/loss, PREFIX/grad_norm, PREFIX/learned_tokens
  double part = 1.0;     // of the step's updates: a step's loss and norm are means over them
};

/// Gives all learned tokens the same weight, which together is `share`: a mean over tokens.
void weigh_tokens(std::span<Example> examples, double share = 1.0);

/// `examples`: all of the update, the same on all ranks; each replica takes its share. Collective over: the
/// actor's ranks.
void supervised_update(StepContext& context, std::vector<Example> examples, const SupervisedUpdate& update,
                       StepMetrics& metrics);

/// The loss alone, a mean over all learned tokens; 0 without any. Collective over: world; the same on all
/// ranks.
double supervised_loss(StepContext& context, std::vector<Example> examples, int64_t max_rows);

}  // namespace trireme::steps
