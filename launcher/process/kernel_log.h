// What a host's kernel wrote about its own trouble: a GPU's driver, a switch, memory. It names causes that a
// rank cannot know of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::process {

/// The lines that matter of records as /dev/kmsg gives them ("6,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00):
/// 79,
/// ..."), of `since_us` (microseconds since the kernel's start) and later, the last ten at most. What the
/// number of an Xid means is added, by NVIDIA's catalog (docs.nvidia.com/deploy/xid-errors).
std::vector<std::string> kernel_findings(const std::vector<std::string>& records, int64_t since_us);

/// Of this host. Empty also where the kernel's log may not be read (kernel.dmesg_restrict, containers).
/// `since_ns`: steady clock.
std::vector<std::string> kernel_findings_since(int64_t since_ns);

}  // namespace trireme::process
