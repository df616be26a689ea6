// The checks, each of which looks at all hosts and says what is wrong; nothing on a sound machine. Local,
// pure.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/doctor/finding.h"
#include "launcher/doctor/link.h"
#include "launcher/doctor/patient.h"

namespace trireme::doctor {

using Patients = std::vector<Patient>;

// What recorded machines tell, too.

/// HCA ports that are down, slower or narrower than their like, that count errors, or that differ between
/// hosts.
std::vector<Finding> check_ports(const Patients& patients);
/// GPUs and HCAs on fewer PCIe lanes than they have.
std::vector<Finding> check_pcie(const Patients& patients);
/// GPUs: how many, of which kind, the drivers, errors of memory.
std::vector<Finding> check_gpus(const Patients& patients);
/// Variables of NCCL, UCX and CUDA, as far as they are set.
std::vector<Finding> check_settings(const Patients& patients);
/// What a process may lock in memory and open.
std::vector<Finding> check_limits(const Patients& patients);

// What takes a program on the host; nothing is said of patients without a Probe.

/// Programs, libraries, drivers and firmware are the same everywhere.
std::vector<Finding> check_versions(const Patients& patients);
/// Device files that are missing in this container, or cannot be opened.
std::vector<Finding> check_devices(const Patients& patients);
/// /dev/shm
std::vector<Finding> check_shared_memory(const Patients& patients);
/// The checkpoint's and the data's files.
std::vector<Finding> check_files(const Patients& patients);
/// Where checkpoints will lie, each of `checkpoint_bytes`: it can be written, is large and fast enough, and
/// is one folder for all hosts. `written_bytes`: by the probe.
std::vector<Finding> check_folder(const Patients& patients, const std::string& folder,
                                  int64_t checkpoint_bytes, int64_t written_bytes);
/// `skew_ns`: of each host's time of day, as the doctor saw it.
std::vector<Finding> check_clocks(const Patients& patients, const std::vector<int64_t>& skew_ns);
/// What the kernels say about GPUs and network.
std::vector<Finding> check_kernel_logs(const Patients& patients);
/// Pairs of hosts that do not reach each other, or only slowly.
std::vector<Finding> check_links(const std::vector<std::string>& hosts, const std::vector<Link>& links);

}  // namespace trireme::doctor
