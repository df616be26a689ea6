// One run, started as often as it takes: attempts in the same folder, each from the last checkpoint, with
// other hosts in the place of those that are lost.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/commands/where.h"
#include "trainer/config/run_config.h"

namespace trireme::commands {

struct Campaign {
  config::RunConfig config;
  Where where;
  GatheredHosts gathered;
  std::vector<std::string> program;  // of a rank
  bool holds_stop = false;           // LaunchPlan::holds_stop
  std::string run_dir;               // exists
  int first_attempt = 0;
  int max_restarts = 0;
  std::chrono::seconds stall_timeout{0};
  std::string how_to_resume;
};

/// Returns the exit status of the last attempt. What it prints last tells why it ended.
int run_attempts(Campaign& campaign);

/// The command that starts the guards.
std::vector<std::string> command_of(const Campaign& campaign, bool use_rdma);

}  // namespace trireme::commands
