// A launch plan as a table to read.
#pragma once

#include <string>

#include "runtime/plan/launch_plan.h"
#include "trainer/config/run_config.h"

namespace trireme::commands {

/// One line a rank: host, CPUs, threads, GPU, nearest port, roles; and a heading.
std::string plan_table(const plan::LaunchPlan& plan, const config::RunConfig& config);

}  // namespace trireme::commands
