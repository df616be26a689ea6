// Who starts programs on the hosts of a job: mpirun (this machine, ssh, inside Slurm) or srun.
#pragma once

#include <string>
#include <vector>

#include "launcher/backends/host_list.h"

namespace trireme::backends {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// The command that starts `program` on each host as often as its share says. Ranks are counted in the
  /// order of `hosts`, and each process finds its own in its environment. `exported`: names of our own
  /// environment variables that it must find there, too.
  virtual std::vector<std::string> command_line(const std::vector<HostShare>& hosts,
                                                const std::vector<std::string>& program,
                                                const std::vector<std::string>& exported) const = 0;
  /// A variable of our own environment that the command must not see, since it means another job.
  virtual bool hides(const std::string& variable) const = 0;
  /// A line of the command's own output that says nothing to a user.
  virtual bool is_noise(const std::string& line) const = 0;
  /// What to do if the command does not exist.
  virtual std::string how_to_install() const = 0;
};

}  // namespace trireme::backends
