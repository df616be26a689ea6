#include "launcher/process/kernel_log.h"

#include <gtest/gtest.h>

namespace trireme::process {
namespace {

using Lines = std::vector<std::string>;

TEST(KernelLog, FindsWhatConcernsARankAndSaysWhatAnXidMeans) {
  const Lines records{
      "6,1201,7000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15\n",
      "4,1310,9000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=trireme-trainer, GPU has fallen off "
      "the "
      "bus.\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n",
      "6,1311,9000001,-;eth0: renamed from veth1\n",
      "4,1312,9000002,-;NVRM: Xid (PCI:0000:3b:00): 999, something new\n",
      "3,1313,9000003,-;Out of memory: Killed process 4711 (trireme-trainer) total-vm:1kB\n",
      "4,1314,9000004,-;mlx5_core 0000:0c:00.0 ibp12s0: Link down\n",
      "4,1315,9000005,-;amdgpu 0000:83:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=3\n",
      "3,1316,9000006,-;INFO: task trireme-trainer:4711 blocked for more than 120 seconds.\n"};
  const auto found = kernel_findings(records, 0);
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(
      found[0],
      "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=trireme-trainer, GPU has fallen off the bus. [Xid 79: "
      "the GPU has fallen off the bus: power, heat or the slot; the host has to be started anew]");
  EXPECT_EQ(found[1], "NVRM: Xid (PCI:0000:3b:00): 999, something new");
  EXPECT_EQ(found[2], "Out of memory: Killed process 4711 (trireme-trainer) total-vm:1kB");
  EXPECT_EQ(found[5], "INFO: task trireme-trainer:4711 blocked for more than 120 seconds.");
}

TEST(KernelLog, LeavesOutWhatIsOlder) {
  const Lines records{"4,1,5000,-;NVRM: Xid (PCI:0000:3b:00): 31, old\n",
                      "4,2,5001,-;NVRM: Xid (PCI:0000:3b:00): 31, new\n"};
  const auto found = kernel_findings(records, 5001);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("new"), std::string::npos);
}

TEST(KernelLog, KeepsTheLastTenAndSurvivesNonsense) {
  Lines records{"", ";", "4;NVRM: Xid", "4,1,x,-;NVRM: Xid (PCI", "NVRM: Xid (PCI:1): 79"};
  EXPECT_EQ(kernel_findings(records, 0).size(), 1U);  // "x" is no time: 0
  for (int i = 0; i < 30; ++i)
    records.push_back("4,1,9,-;NVRM: Xid (PCI:0000:3b:00): 31, number " + std::to_string(i) + "\n");
  const auto found = kernel_findings(records, 1);
  ASSERT_EQ(found.size(), 10U);
  EXPECT_NE(found[0].find("number 20 "), std::string::npos) << found[0];
}

}  // namespace
}  // namespace trireme::process
