// Where a device is attached, and how far two devices are from each other.
#pragma once

#include <string>
#include <vector>

#include "launcher/topology/sys_files.h"

namespace trireme::topology {

struct Place {
  /// From the root complex to the device: {"pci0000:15", "0000:15:01.0", ..., "0000:1b:00.0"}. Empty if the
  /// machine does not say.
  std::vector<std::string> path;
  int memory_node = -1;   // -1: the machine does not say
  std::vector<int> cpus;  // near it; may hold CPUs that this process may not use
};

/// Of a PCI device, "sys/bus/pci/devices/0000:1b:00.0" or any link to it.
Place find_place(const SysFiles& files, const std::string& device);

/// As nvidia-smi and NCCL name them, nearest first.
enum class Distance {
  pix,   // one switch between them, or one device
  pxb,   // several switches
  phb,   // through the host bridge that both hang on
  node,  // through two host bridges of one memory node
  sys,   // from one memory node to another
};
const char* to_string(Distance distance);  // "PIX"

struct Separation {
  Distance distance = Distance::sys;
  int hops = 0;  // PCI devices between them
  auto operator<=>(const Separation&) const = default;
};
/// `num_memory_nodes` of the machine: with one, all is near.
Separation separation(const Place& a, const Place& b, size_t num_memory_nodes);

}  // namespace trireme::topology
