// Open MPI's mpirun, all ranks on this machine: shared memory between ranks, control on the loopback
// interface, so it works without a network and in containers.
#pragma once

#include "launcher/backends/backend.h"

namespace trireme::backends {

class Mpirun : public Backend {
 public:
  /// `is_root`: mpirun must be told that this is meant. `is_set(variable)`: the user's own OMPI_MCA_* stay as
  /// they are.
  Mpirun(bool is_root, std::function<bool(const std::string&)> is_set);
  /// For this process and its environment.
  static Mpirun from_environment();

  std::string name() const override { return "mpirun"; }
  std::vector<std::string> command_line(const plan::LaunchPlan& plan,
                                        const std::vector<std::string>& guard) const override;
  /// The command that starts `program` on so many ranks, without guards: for what is no run.
  std::vector<std::string> plain_command_line(size_t num_ranks,
                                              const std::vector<std::string>& program) const;
  bool hides(const std::string& variable) const override;
  bool is_noise(const std::string& line) const override;
  std::string how_to_install() const override;

 private:
  std::vector<std::string> local_ranks(size_t num_ranks) const;

  bool is_root_;
  std::function<bool(const std::string&)> is_set_;
};

}  // namespace trireme::backends
