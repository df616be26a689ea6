// The environment in which a rank starts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/launch_plan.h"
#include "runtime/plan/rank_env.h"

namespace trireme::process {

/// Our own environment, with the rank's TRIREME_* set, and with what the plan says about threads and devices
/// where the user has not set it. `guard` is the guard's RankEnv.
std::vector<std::string> rank_environment(const plan::LaunchPlan& plan, const plan::RankEnv& guard,
                                          const std::string& page);

/// For a backend's command and the guards that it starts: our own environment without what the backend
/// hides and what another run of ours has left, and with these.
struct GuardSettings {
  std::string run_dir, secret, supervisor;
};
std::vector<std::string> guard_environment(const std::function<bool(const std::string&)>& backend_hides,
                                           const GuardSettings& settings);

/// Our own environment without the variables that `hides` says, and with `extra` (NAME=value) in front.
template <typename Hides>
std::vector<std::string> environment_without(Hides hides, std::vector<std::string> extra);

}  // namespace trireme::process

#include <unistd.h>

namespace trireme::process {

template <typename Hides>
std::vector<std::string> environment_without(Hides hides, std::vector<std::string> extra) {
  for (char** at = environ; *at; ++at) {
    const std::string entry = *at;
    if (!hides(entry.substr(0, entry.find('=')))) extra.push_back(entry);
  }
  return extra;
}

}  // namespace trireme::process
