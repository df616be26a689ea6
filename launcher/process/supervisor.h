// The part of `trireme run` that stays while the ranks run: starts them, shows what they say, passes signals
// on, ends all when one fails, and says why.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/backends/backend.h"
#include "launcher/console/console.h"
#include "launcher/process/outcome.h"
#include "launcher/process/signal_queue.h"
#include "runtime/plan/launch_plan.h"

namespace trireme::process {

struct Job {
  plan::LaunchPlan plan;                   // lies in plan.run_dir, whose logs folder exists
  std::string config;                      // config.toml, for hosts that do not share that folder
  std::vector<backends::HostShare> hosts;  // of the plan's ranks, in their order
  std::vector<std::string> guard;          // command
  std::vector<std::string> exported;       // names of environment variables that ranks need elsewhere
  std::string how_to_resume;               // a command, for who stopped the run
  std::chrono::seconds stall_timeout{0};   // without any progress; 0: from what was seen so far
};

/// Returns when nothing of this attempt is running any more, as far as this host can tell. Throws io if the
/// backend's command does not exist.
Outcome supervise(const Job& job, const backends::Backend& backend, console::Console& console,
                  SignalQueue& signals);

}  // namespace trireme::process
