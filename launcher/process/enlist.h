// How a guard begins: it finds the supervisor, says who it is, and gets all that its rank needs.
#pragma once

#include <string>
#include <vector>

#include "launcher/process/connection.h"
#include "runtime/plan/launch_plan.h"
#include "runtime/plan/rank_env.h"

namespace trireme::process {

struct Enlisted {
  plan::RankEnv env;  // with the plan's run_dir
  plan::LaunchPlan plan;
  Connection supervisor;
  std::vector<std::string> orders;  // that came right behind the plan
};

/// Finds the supervisor by the environment (plan::RankEnv). Writes the plan and the configuration into the
/// run's folder where hosts do not share it. Throws io, invalid_config, timeout, peer_failed.
Enlisted enlist();

}  // namespace trireme::process
