// What one host has: the cores and memory that this process may use, its GPUs, its HCAs and their ports,
// its network interfaces. Read from /sys and /proc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/topology/gpu.h"
#include "launcher/topology/hca.h"
#include "launcher/topology/network_interface.h"
#include "launcher/topology/sys_files.h"

namespace trireme::topology {

struct Core {
  std::vector<int> cpus;  // its hardware threads that may be used, ascending
  int memory_node = -1;   // -1: the machine does not say
};

// Those of GPUs and other devices, which have no CPUs, are left out.
struct MemoryNode {
  int number = 0;
  std::vector<int> cpus;  // of the whole machine
  bool may_be_used = true;
};

struct Machine {
  std::string host;
  std::vector<MemoryNode> memory_nodes;
  std::vector<Core> cores;  // by memory node, then by first CPU
  std::vector<Gpu> gpus;    // as CUDA or HIP count them
  std::vector<Hca> hcas;    // mlx5_2 before mlx5_10
  std::vector<NetworkInterface> interfaces;
  std::vector<Route> routes;

  int cpu_limit = 0;  // CPUs' worth of time that the container may use, rounded up; 0: no limit

  int num_cpus() const;
  bool may_use_memory_of(int node) const;
};

/// The CPUs of this process's affinity mask.
std::vector<int> allowed_cpus();

/// `allowed`: CPUs that may be used. If it is not given: the affinity mask and the cpuset, which is what
/// Slurm or a container grants; recorded or below another folder likewise, and all CPUs that are online if
/// it does not say. GPUs that a container hides are left out.
Machine discover(const SysFiles& files, const std::optional<std::vector<int>>& allowed = std::nullopt);

}  // namespace trireme::topology
