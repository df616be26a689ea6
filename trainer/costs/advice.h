// What would help: changes of one setting each, tried by the same model. Torch-free.
#pragma once

#include <string>
#include <vector>

#include "trainer/costs/outcome.h"

namespace trireme::costs {

struct Change {
  std::string setting;  // "actor.parallel.tp = 4", as the configuration has it
  std::string kind;     // what it changes: "actor tp", "ZeRO", "recompute", "rollout tp", "micro-batch", ...
  Job job;
  Outcome outcome;
  double gain = 0;            // of the step's time; below 0: slower
  bool fits_at_last = false;  // the plan does not fit without it
};

/// Every change of one setting that the run's ranks allow, fitting or not. `best` first by: it makes the plan
/// fit, then time; those that do not fit come last.
std::vector<Change> changes_of(const Job& job, const Outcome& now);
/// Those of them that are worth saying: they make the plan fit, or save 1 % or more.
std::vector<Change> worthwhile(const std::vector<Change>& changes);

}  // namespace trireme::costs
