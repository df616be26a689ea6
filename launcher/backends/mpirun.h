// Open MPI's mpirun. On one machine: shared memory between ranks, control on the loopback interface, so that
// it works without a network and in containers. On several: over ssh, or Slurm's own means inside of a job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/backends/backend.h"

namespace trireme::backends {

class Mpirun : public Backend {
 public:
  struct Options {
    bool is_root = false;  // mpirun must be told that this is meant
    // The user's own OMPI_MCA_* stay as they are.
    std::function<bool(const std::string&)> is_set = [](const std::string&) { return false; };
    bool several_hosts = false;
    bool in_slurm = false;     // it starts its daemons through srun
    std::string launch_agent;  // instead of ssh: a command that takes HOST and a shell's line
    std::string prefix;        // where Open MPI lies on other hosts; empty: on their PATH
    std::string network;       // "10.78.0.0/24": what MPI uses between hosts; empty: what it finds
    bool use_rdma = false;     // every host has ports that carry MPI's traffic
    bool is_version_5 = false;
  };
  explicit Mpirun(Options options) : options_(std::move(options)) {}
  /// For this process and its environment, on one machine.
  static Mpirun from_environment();
  /// What from_environment starts from.
  static Options options_of_environment();

  std::string name() const override { return "mpirun"; }
  std::vector<std::string> command_line(const std::vector<HostShare>& hosts,
                                        const std::vector<std::string>& program,
                                        const std::vector<std::string>& exported) const override;
  /// The command that starts `program` on so many ranks, without guards: for what is no run.
  std::vector<std::string> plain_command_line(size_t num_ranks,
                                              const std::vector<std::string>& program) const;
  bool hides(const std::string& variable) const override;
  bool is_noise(const std::string& line) const override;
  std::string how_to_install() const override;

 private:
  std::vector<std::string> base(size_t num_ranks) const;
  void add_hosts(std::vector<std::string>& command, const std::vector<HostShare>& hosts) const;
  void set(std::vector<std::string>& command, const std::string& name, const std::string& value) const;

  Options options_;
};

}  // namespace trireme::backends
