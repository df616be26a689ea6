// Who starts the guards: mpirun on this machine; Slurm and other hosts take their place beside it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/launch_plan.h"

namespace trireme::backends {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// The command that starts `guard` once per rank of the plan, with its rank in the environment.
  virtual std::vector<std::string> command_line(const plan::LaunchPlan& plan,
                                                const std::vector<std::string>& guard) const = 0;
  /// A variable of our own environment that the command must not see, since it means another job.
  virtual bool hides(const std::string& variable) const = 0;
  /// A line of the command's own output that says nothing to a user.
  virtual bool is_noise(const std::string& line) const = 0;
  /// What to do if the command does not exist.
  virtual std::string how_to_install() const = 0;
};

}  // namespace trireme::backends
