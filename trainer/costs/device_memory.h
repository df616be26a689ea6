// How much memory a rank may count on. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::costs {

/// Bytes.
struct DeviceMemory {
  int64_t total = 0;  // of the device, or this rank's share of the host's
  int64_t used = 0;   // of that, already, or needed beside what is planned
};

/// The host's memory, or the least limit of a control group that this process is in, shared evenly by
/// `ranks_on_host`; in use is what this process holds resident. `root` stands for "/" in tests. Throws io if
/// the kernel's files cannot be read.
DeviceMemory host_memory(int64_t ranks_on_host, const std::string& root = "");

/// Bytes that this process holds resident.
int64_t resident_bytes(const std::string& root = "");

}  // namespace trireme::costs
