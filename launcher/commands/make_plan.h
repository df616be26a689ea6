// From a checked configuration and this machine to a launch plan.
#pragma once

#include <string>
#include <vector>

#include "launcher/topology/machine.h"
#include "launcher/topology/settings.h"
#include "runtime/plan/launch_plan.h"
#include "trainer/config/run_config.h"

namespace trireme::commands {

/// This machine, with the GPUs that this build and the configuration may use, and what is set on it.
struct Host {
  topology::Machine machine;
  topology::Settings settings;
};
Host host_for(const config::RunConfig& config);

struct PlannedRun {
  plan::LaunchPlan plan;
  std::vector<std::string> warnings;  // of the machine, and of settings that will not do what they say
};

/// `asked_ranks` 0: run.ranks, else one per GPU, else 1. run_dir and program stay empty. Throws
/// invalid_config: more ranks than CPUs, a GPU that is asked for and not there, placements that do not fit.
PlannedRun make_plan(const config::RunConfig& config, const Host& host, int asked_ranks);

/// The folder that holds this program and trireme-trainer.
std::string program_folder();

}  // namespace trireme::commands
