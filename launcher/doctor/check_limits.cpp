#include <optional>
#include <sstream>

#include "launcher/doctor/checks.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

constexpr int64_t kUnlimited = INT64_MAX, kMiB = 1 << 20, kGiB = 1 << 30;

// The soft limit in a line of /proc/PID/limits: "Max locked memory         8388608              8388608
// bytes".
std::optional<int64_t> limit(const topology::SysFiles& files, const std::string& name) {
  std::istringstream lines(files.text("proc/self/limits").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::string soft;
    rest >> soft;
    if (soft == "unlimited") return kUnlimited;
    if (!soft.empty()) return std::strtoll(soft.c_str(), nullptr, 10);
  }
  return std::nullopt;
}

std::string size_text(int64_t bytes) {
  return bytes < kMiB ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
}

bool has_active_port(const topology::Machine& machine) {
  for (const auto& hca : machine.hcas)
    for (const auto& port : hca.ports)
      if (port.is_up()) return true;
  return false;
}

}  // namespace

std::vector<Finding> check_limits(const Patients& patients) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    const bool rdma = has_active_port(patient.machine);
    const auto locked = limit(patient.files, "Max locked memory");
    // Linux gives 8 MiB; with RDMA every buffer that is sent is locked.
    if (locked && *locked < (rdma ? kGiB : kMiB))
      findings.push_back(
          {.severity = rdma ? Severity::error : Severity::warning,
           .check = "memlock",
           .hosts = {patient.host},
           .what = fmt::format("a process may lock {} of memory", size_text(*locked)),
           .why = rdma ? "RDMA locks all that it sends: NCCL and UCX end with \"cannot allocate memory\""
                       : "GPU drivers and network libraries lock memory; this little fails in strange places",
           .to_do =
               "set `memlock unlimited` in /etc/security/limits.conf; under Slurm LimitMEMLOCK=infinity for "
               "slurmd and PropagateResourceLimitsExcept=MEMLOCK; for a container --ulimit memlock=-1"});
    const auto open_files = limit(patient.files, "Max open files");
    if (open_files && *open_files < 1024)
      findings.push_back({.severity = Severity::warning,
                          .check = "open files",
                          .hosts = {patient.host},
                          .what = fmt::format("a process may open {} files", *open_files),
                          .why = "connections between ranks count as files",
                          .to_do = "raise `nofile` in /etc/security/limits.conf to 65536"});
  }
  return findings;
}

std::vector<Finding> check_shared_memory(const Patients& patients) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    if (!patient.probe) continue;
    // MPI and NCCL take some 10 MiB a rank.
    const auto ranks = std::max<int64_t>(1, static_cast<int64_t>(patient.machine.gpus.size()));
    const auto needed = std::max<int64_t>(128, 32 * ranks) * kMiB;
    const auto& probe = *patient.probe;
    const auto add = [&](const std::string& what, const std::string& to_do) {
      findings.push_back({.severity = Severity::error,
                          .check = "shared memory",
                          .hosts = {patient.host},
                          .what = what,
                          .why =
                              "ranks of one host talk through it: MPI and NCCL end with a bus error or \"no "
                              "space left on device\"",
                          .to_do = to_do});
    };
    if (probe.shared_memory_bytes < needed)
      add(fmt::format("/dev/shm has {}", size_text(probe.shared_memory_bytes)),
          "for a container --ipc=host, or --shm-size=8g");
    else if (probe.shared_memory_free < needed)
      add(fmt::format("/dev/shm has {} left of {}", size_text(probe.shared_memory_free),
                      size_text(probe.shared_memory_bytes)),
          "`ls -l /dev/shm`: delete what ended programs have left");
  }
  return findings;
}

}  // namespace trireme::doctor
