// How NVIDIA's GPUs are, as nvidia-smi tells.
#pragma once

#include <string>
#include <vector>

namespace trireme::doctor {

struct GpuState {
  std::string bus_id;  // as the kernel writes it, "0000:3b:00.0"
  std::string name;
  double used_mib = 0, total_mib = 0;
  double uncorrected_errors = 0;                     // of ECC since the driver was loaded
  bool remap_pending = false, remap_failed = false;  // rows of memory
  bool slowed_by_hardware = false, slowed_by_heat = false;
  double link_width = 0, link_width_max = 0;  // of PCIe
  bool mig = false;
};

std::string nvidia_smi_command();
/// Lines that make no sense are left out; so are fields that this GPU does not have ("[N/A]").
std::vector<GpuState> gpu_states(const std::string& said);

}  // namespace trireme::doctor
