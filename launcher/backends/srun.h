// Slurm's srun inside of an allocation, with PMIx for MPI.
#pragma once

#include <string>
#include <vector>

#include "launcher/backends/backend.h"

namespace trireme::backends {

class Srun : public Backend {
 public:
  /// `container`: options of pyxis for this step ("--container-image=...", ...); usually none.
  explicit Srun(std::vector<std::string> container = {}) : container_(std::move(container)) {}

  std::string name() const override { return "srun"; }
  std::vector<std::string> command_line(const std::vector<HostShare>& hosts,
                                        const std::vector<std::string>& program,
                                        const std::vector<std::string>& exported) const override;
  bool hides(const std::string& variable) const override;
  bool is_noise(const std::string& line) const override;
  std::string how_to_install() const override;

 private:
  std::vector<std::string> container_;
};

}  // namespace trireme::backends
