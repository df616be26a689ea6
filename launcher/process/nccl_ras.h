// What NCCL itself knows of a job that hangs: its RAS service (2.24 and later), one thread in every process
// that uses NCCL, tells which ranks do not answer and whose operations differ. Protocol:
// docs.nvidia.com/deeplearning/nccl/user-guide, "RAS": lines of text over TCP, on localhost.
#pragma once

#include <string>
#include <vector>

#include "launcher/process/clock.h"
#include "launcher/process/connection.h"

namespace trireme::process {

/// One question. Nothing here blocks, and no failure is an error: there may be nobody who answers.
class RasQuery {
 public:
  /// Asks. `address`: as in NCCL_RAS_ADDR, "host:port"; empty: NCCL's own default.
  explicit RasQuery(const std::string& address);

  int fd() const { return connection_.fd(); }
  Clock::time_point deadline() const { return deadline_; }
  /// Takes what has come. True when nothing more will.
  bool receive();
  /// Why NCCL thinks that something is wrong: its sections of errors and warnings, else its summary.
  std::vector<std::string> findings() const;

 private:
  Connection connection_;
  Clock::time_point deadline_;
  std::vector<std::string> lines_;
};

}  // namespace trireme::process
