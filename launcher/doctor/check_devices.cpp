#include <algorithm>

#include "launcher/doctor/checks.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

constexpr const char* kToDo =
    "for a container `docker/run` adds what is needed: --gpus all or --device, and /dev/infiniband; outside "
    "of "
    "one, the user's groups (video, render, rdma)";

Finding of(const Patient& patient, const std::string& what, const std::string& why) {
  return {.severity = Severity::error,
          .check = "devices",
          .hosts = {patient.host},
          .what = what,
          .why = why,
          .to_do = kToDo};
}

}  // namespace

std::vector<Finding> check_devices(const Patients& patients) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    if (!patient.probe) continue;
    for (const auto& [path, why] : patient.probe->closed)
      findings.push_back(of(patient, fmt::format("{} cannot be opened: {}", path, why),
                            "ranks open it, and end when they cannot"));
    const auto has = [&](const std::string& vendor) {
      return std::any_of(patient.machine.gpus.begin(), patient.machine.gpus.end(),
                         [&](const auto& gpu) { return gpu.vendor == vendor; });
    };
    const auto missing = [&](const std::string& path) { return !patient.files.exists(path); };
    if (has("nvidia") && (missing("dev/nvidiactl") || missing("dev/nvidia-uvm")))
      findings.push_back(of(patient, "there are NVIDIA's GPUs, but no /dev/nvidiactl or /dev/nvidia-uvm",
                            "CUDA finds no GPU"));
    if (has("amd") && missing("dev/kfd"))
      findings.push_back(of(patient, "there are AMD's GPUs, but no /dev/kfd", "HIP finds no GPU"));
    for (const auto& hca : patient.machine.hcas)
      if (!hca.has_device_file)
        findings.push_back(of(patient, fmt::format("{} has no file in /dev/infiniband", hca.name),
                              "NCCL and UCX cannot use the HCA, and take a slower way"));
  }
  return findings;
}

}  // namespace trireme::doctor
