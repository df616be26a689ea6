// The part of `trireme run` that stays while the ranks run: starts them, shows what they say, passes signals
// on, ends all when one fails, and says why.
#pragma once

#include <string>
#include <vector>

#include "launcher/backends/backend.h"
#include "launcher/console/console.h"
#include "runtime/plan/launch_plan.h"

namespace trireme::process {

struct Job {
  plan::LaunchPlan plan;           // lies in plan.run_dir, whose logs folder exists
  std::vector<std::string> guard;  // command
  std::string how_to_resume;       // a command, for who stopped the run
};

/// Returns the job's exit status (docs/exit-codes.md) when nothing of it is running any more. The last
/// thing on the console is one paragraph about the first rank that failed, if one did.
int supervise(const Job& job, const backends::Backend& backend, console::Console& console);

}  // namespace trireme::process
