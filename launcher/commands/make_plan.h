// From a checked configuration and the hosts of a job to a launch plan.
#pragma once

#include <string>
#include <vector>

#include "launcher/topology/machine.h"
#include "launcher/topology/settings.h"
#include "runtime/plan/launch_plan.h"
#include "trainer/config/run_config.h"

namespace trireme::commands {

/// A host, and what is set on it.
struct Host {
  topology::Machine machine;
  topology::Settings settings;
  int free_port = 0;
};
/// This one.
Host this_host();
/// Leaves it the GPUs that this build and the configuration may use.
void keep_usable_gpus(Host& host, const config::RunConfig& config);

struct PlannedRun {
  plan::LaunchPlan plan;
  std::vector<std::string> warnings;  // of the machines, and of settings that will not do what they say
  bool use_rdma = false;              // every host has ports that carry the traffic between hosts
};

/// Ranks of one machine: `asked`, else run.ranks, else one per GPU, else 1.
int ranks_of_one_host(const config::RunConfig& config, const Host& host, int asked);

/// `ranks[i]`: how many on hosts[i]. `first_address`: IPv4 address of the first one, host byte order; 0:
/// unknown. run_dir and program stay empty. Throws invalid_config: more ranks than CPUs, a GPU that is asked
/// for and not there, placements that do not fit.
PlannedRun make_plan(const config::RunConfig& config, const std::vector<Host>& hosts,
                     const std::vector<int>& ranks, uint32_t first_address = 0);

/// The folder that holds this program and trireme-trainer.
std::string program_folder();

}  // namespace trireme::commands
