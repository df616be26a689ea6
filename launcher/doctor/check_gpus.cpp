#include <algorithm>
#include <map>
#include <set>

#include "launcher/doctor/checks.h"
#include "launcher/doctor/gpu_state.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

constexpr double kUsedMib = 1024;  // what a driver and its tools take is less

void add(std::vector<Finding>& findings, const Patient& patient, Severity severity, const std::string& what,
         const std::string& why, const std::string& to_do) {
  findings.push_back({.severity = severity,
                      .check = "gpus",
                      .hosts = {patient.host},
                      .what = what,
                      .why = why,
                      .to_do = to_do});
}

void check_state(const Patient& patient, const GpuState& gpu, std::vector<Finding>& findings) {
  const auto name = fmt::format("GPU {} ({})", gpu.bus_id, gpu.name);
  if (gpu.uncorrected_errors > 0 || gpu.remap_pending || gpu.remap_failed)
    add(findings, patient, Severity::error,
        name + (gpu.remap_failed    ? " has memory that is broken and cannot be replaced"
                : gpu.remap_pending ? " has rows of memory that wait to be replaced"
                                    : " has seen errors of memory that ECC could not correct"),
        "a program that touches that memory is ended, or has wrong numbers",
        gpu.remap_failed
            ? "exchange it"
            : "reset it (`nvidia-smi -r`) or start the host anew; if it comes again, exchange it");
  if (gpu.slowed_by_hardware || gpu.slowed_by_heat)
    add(findings, patient, Severity::warning,
        name + (gpu.slowed_by_heat ? " is slowed down by heat"
                                   : " is slowed down by its hardware (power, heat)"),
        "all ranks wait for the slowest one",
        "look at fans, air flow and power: `nvidia-smi -q -d PERFORMANCE`");
  if (gpu.used_mib > kUsedMib)
    add(findings, patient, Severity::warning,
        fmt::format("{}: {:.0f} of {:.0f} MiB are in use", name, gpu.used_mib, gpu.total_mib),
        "somebody else's program is on it: there is less memory than is planned with, and less time",
        "`nvidia-smi` names the processes; those of a run that was killed may be left");
  if (gpu.link_width > 0 && gpu.link_width < gpu.link_width_max)
    add(findings, patient, Severity::warning,
        fmt::format("{} uses {:.0f} of its {:.0f} PCIe lanes", name, gpu.link_width, gpu.link_width_max),
        "everything between it and the host takes longer in proportion",
        "seat the card again, look at the riser");
  if (gpu.mig)
    add(findings, patient, Severity::warning, name + " is cut into instances (MIG)",
        "NCCL does not join instances, and a rank has only a part of the memory",
        "`nvidia-smi -mig 0`, where nobody else needs them");
}

// Those that PCI shows and the driver does not.
void check_missing(const Patient& patient, const std::vector<GpuState>& states,
                   std::vector<Finding>& findings) {
  if (states.empty()) return;
  for (const auto& gpu : patient.machine.gpus) {
    const bool seen = std::any_of(states.begin(), states.end(),
                                  [&](const GpuState& state) { return state.bus_id == gpu.bus_id; });
    if (gpu.vendor == "nvidia" && !seen)
      add(findings, patient, Severity::error, fmt::format("the driver does not see GPU {}", gpu.bus_id),
          "a rank of its own would get it",
          "`dmesg | grep Xid`; a GPU that fell off the bus needs a new start of the host");
  }
}

// AMD's driver counts in files: "ue: 0\nce: 3".
void check_amd(const Patient& patient, std::vector<Finding>& findings) {
  for (const auto& gpu : patient.machine.gpus) {
    if (gpu.vendor != "amd") continue;
    const auto counts =
        patient.files.text("sys/bus/pci/devices/" + gpu.bus_id + "/ras/umc_err_count").value_or("");
    const auto at = counts.find("ue:");
    if (at != std::string::npos && std::atoll(counts.c_str() + at + 3) > 0)
      add(findings, patient, Severity::error,
          fmt::format("GPU {} has seen errors of memory that ECC could not correct", gpu.bus_id),
          "a program that touches that memory is ended, or has wrong numbers",
          "reset it (`amd-smi reset -G`) or start the host anew; if it comes again, exchange it");
  }
}

}  // namespace

std::vector<Finding> check_gpus(const Patients& patients) {
  std::vector<Finding> findings;
  std::map<std::string, std::vector<std::string>> kinds;  // "8 x H100" -> hosts
  for (const auto& patient : patients) {
    const auto states = gpu_states(patient.probe ? patient.probe->gpus : "");
    for (const auto& state : states) check_state(patient, state, findings);
    check_missing(patient, states, findings);
    check_amd(patient, findings);
    std::set<std::string> names;
    for (const auto& gpu : patient.machine.gpus) names.insert(gpu.name.empty() ? gpu.vendor : gpu.name);
    std::string kind = fmt::format("{} GPUs", patient.machine.gpus.size());
    for (const auto& name : names) kind += ", " + name;
    kinds[kind].push_back(patient.host);
  }
  if (kinds.size() > 1)
    for (const auto& [kind, hosts] : kinds)
      findings.push_back(
          {.severity = Severity::warning,
           .check = "gpus",
           .hosts = hosts,
           .what = kind + "; other hosts have others",
           .why = "ranks share work as if all were alike, and wait for the slowest and smallest one",
           .to_do = "take hosts of one kind, or say by --hosts how many ranks each gets"});
  return findings;
}

}  // namespace trireme::doctor
