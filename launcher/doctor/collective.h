// One collective of all hosts through the library that a run will use: MPI, and NCCL where there are GPUs.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/finding.h"

namespace trireme::doctor {

struct Collective {
  bool tried = false;
  bool timed_out = false;
  int status = 0;             // of the program, 128 + signal
  std::string device;         // "CPU": through MPI; else through NCCL
  double bytes_a_second = 0;  // of each rank's link, as nccl-tests counts ("busbw")
  int64_t wrong = 0;          // elements
  std::string said;           // the end of what it and its launcher wrote
};

/// Arguments of trireme-trainer that make it, one rank a host.
std::vector<std::string> collective_arguments();
/// From what it printed. Lines that are not its report are left in `said`.
Collective collective_from(const std::string& printed, int status, bool timed_out);

std::vector<Finding> check_collective(const std::vector<std::string>& hosts, const Collective& collective);

}  // namespace trireme::doctor
