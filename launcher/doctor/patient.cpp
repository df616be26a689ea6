#include "launcher/doctor/patient.h"

namespace trireme::doctor {

void read_for_checks(const topology::SysFiles& files) {
  for (const char* path : {"proc/self/limits", "sys/module/nvidia/version", "sys/module/amdgpu/version"})
    files.text(path);
  for (const char* path : {"dev/nvidiactl", "dev/nvidia-uvm", "dev/kfd"}) files.exists(path);
  const auto machine = topology::discover(files);
  const auto read_link = [&](const std::string& bus_id) {
    for (const char* name : {"/current_link_width", "/max_link_width"})
      files.text("sys/bus/pci/devices/" + bus_id + name);
  };
  for (const auto& gpu : machine.gpus) {
    read_link(gpu.bus_id);
    files.text("sys/bus/pci/devices/" + gpu.bus_id + "/ras/umc_err_count");
  }
  for (const auto& hca : machine.hcas) {
    const auto folder = "sys/class/infiniband/" + hca.name;
    read_link(hca.bus_id);
    for (const char* name : {"/fw_ver", "/board_id"}) files.text(folder + name);
    for (const auto& port : hca.ports)
      for (const char* kind : {"/counters", "/hw_counters"}) {
        const auto counters = folder + "/ports/" + std::to_string(port.number) + kind;
        for (const auto& name : files.entries(counters)) files.text(counters + "/" + name);
      }
  }
}

}  // namespace trireme::doctor
