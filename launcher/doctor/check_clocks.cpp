#include <algorithm>
#include <cmath>

#include "launcher/doctor/checks.h"
#include "runtime/base/error.h"

namespace trireme::doctor {

std::vector<Finding> check_clocks(const Patients& patients, const std::vector<int64_t>& skew_ns) {
  constexpr double kSkew = 2.0;     // seconds: what the network and a busy host may add is far less
  constexpr double kTickets = 240;  // munge and Kerberos refuse beyond 300
  std::vector<Finding> findings;
  if (skew_ns.size() < 2) return findings;
  auto in_order = skew_ns;
  std::sort(in_order.begin(), in_order.end());
  const auto usual = in_order[(in_order.size() - 1) / 2];
  for (size_t i = 0; i < patients.size(); ++i) {
    const double off = static_cast<double>(skew_ns[i] - usual) * 1e-9;
    if (std::abs(off) < kSkew) continue;
    findings.push_back(
        {.severity = std::abs(off) > kTickets ? Severity::error : Severity::warning,
         .check = "clocks",
         .hosts = {patients[i].host},
         .what = fmt::format("its clock is {:.1f} s {}", std::abs(off), off > 0 ? "ahead" : "behind"),
         .why = "times in the logs of several hosts cannot be compared, file systems take new files for old "
                "ones, and "
                "Slurm's munge refuses what is 5 minutes off",
         .to_do = "start chrony or ntpd there: `timedatectl set-ntp true`"});
  }
  return findings;
}

std::vector<Finding> check_kernel_logs(const Patients& patients) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    if (!patient.probe || patient.probe->kernel.empty()) continue;
    const auto& lines = patient.probe->kernel;
    findings.push_back(
        {.severity = Severity::warning,
         .check = "kernel log",
         .hosts = {patient.host},
         .what = fmt::format("the kernel complains: {}", lines.back()) +
                 (lines.size() > 1 ? fmt::format(" ({} such lines)", lines.size()) : ""),
         .why = "a GPU or HCA that failed once since the host's start often fails again",
         .to_do = "`dmesg` shows all; start the host anew, and take it out if it comes again"});
  }
  return findings;
}

}  // namespace trireme::doctor
