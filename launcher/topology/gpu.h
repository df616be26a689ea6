// The GPUs of a host.
#pragma once

#include <string>
#include <vector>

#include "launcher/topology/pci_path.h"
#include "launcher/topology/settings.h"
#include "launcher/topology/sys_files.h"

namespace trireme::topology {

struct Gpu {
  std::string bus_id;  // "0000:3b:00.0"
  std::string vendor;  // "nvidia" | "amd"
  std::string name;    // "NVIDIA H100 80GB HBM3", "MI300X"; "" if the machine does not say
  std::string uuid;    // "GPU-..."; "" if the machine does not say
  Place place;
};

/// In the order in which CUDA (with CUDA_DEVICE_ORDER=PCI_BUS_ID) or HIP counts them. Those that a container
/// hides are left out.
std::vector<Gpu> find_gpus(const SysFiles& files);

/// What CUDA_VISIBLE_DEVICES, or ROCR_ and HIP_VISIBLE_DEVICES, leave of them, in that order. A GPU that is
/// named in a way that the machine does not tell has an empty bus id.
std::vector<Gpu> visible_gpus(std::vector<Gpu> gpus, const Settings& settings);

}  // namespace trireme::topology
