// What one host has: the cores that this process may use, and its GPUs, read from /sys.
#pragma once

#include <string>
#include <vector>

namespace trireme::topology {

struct Core {
  std::vector<int> cpus;  // its hardware threads that may be used, ascending
  int memory_node = -1;   // -1: the machine does not say
};

struct Gpu {
  std::string bus_id;     // "0000:3b:00.0"
  std::string vendor;     // "nvidia" | "amd"
  int memory_node = -1;   // -1: the machine does not say
  std::vector<int> cpus;  // near it; may hold CPUs that this process may not use
};

struct Machine {
  std::string host;
  std::vector<Core> cores;  // by memory node, then by first CPU
  std::vector<Gpu> gpus;    // by bus id: the order of CUDA_DEVICE_ORDER=PCI_BUS_ID

  int cpu_limit = 0;  // CPUs' worth of time that the container may use, rounded up; 0: no limit

  int num_cpus() const;
};

/// The CPUs of this process's affinity mask.
std::vector<int> allowed_cpus();
std::string host_name();

/// `root` stands before /sys and /proc: a recorded machine, or "". `allowed`: CPUs that may be used.
/// GPUs that a container hides are left out.
Machine discover(const std::string& root, const std::vector<int>& allowed);

/// CUDA_VISIBLE_DEVICES and its like, "0,2" or UUIDs: how many and, where it says, which of the GPUs are
/// left.
std::vector<Gpu> visible_gpus(const std::vector<Gpu>& gpus, const char* visible_devices);

}  // namespace trireme::topology
