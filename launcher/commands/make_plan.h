// From a checked configuration and this machine to a launch plan.
#pragma once

#include <string>

#include "launcher/topology/machine.h"
#include "runtime/plan/launch_plan.h"
#include "trainer/config/run_config.h"

namespace trireme::commands {

/// This machine, with the GPUs that this build and the configuration may use.
topology::Machine machine_for(const config::RunConfig& config);

/// `asked_ranks` 0: run.ranks, else one per GPU, else 1. run_dir and program stay empty. Throws
/// invalid_config: more ranks than CPUs, a GPU that is asked for and not there, placements that do not fit.
plan::LaunchPlan make_plan(const config::RunConfig& config, const topology::Machine& machine,
                           int asked_ranks);

/// The folder that holds this program and trireme-trainer.
std::string program_folder();

}  // namespace trireme::commands
