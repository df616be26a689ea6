#include "launcher/topology/machine.h"

#include <gtest/gtest.h>

#include "launcher/topology/cpu_list.h"
#include "runtime/base/error.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

std::vector<std::string> bus_ids(const std::vector<Gpu>& gpus) {
  std::vector<std::string> ids;
  for (const auto& gpu : gpus) ids.push_back(gpu.bus_id);
  return ids;
}

TEST(CpuList, IsReadAndWrittenAsTheKernelDoes) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("\n"), std::vector<int>{});
  EXPECT_EQ(format_cpu_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(format_cpu_list({}), "");
  for (const char* text : {"a", "1-", "1,,2", "1;2", "-1"}) EXPECT_THROW(parse_cpu_list(text), Error) << text;
}

TEST(Machine, HasCoresWithBothTheirThreadsByMemoryNode) {
  const FakeRoot root(two_sockets());
  const auto machine = discover(root.path(), range(0, 31));
  ASSERT_EQ(machine.cores.size(), 16u);
  EXPECT_EQ(machine.num_cpus(), 32);
  EXPECT_EQ(machine.cores[0].cpus, (std::vector<int>{0, 16}));
  EXPECT_EQ(machine.cores[0].memory_node, 0);
  EXPECT_EQ(machine.cores[8].cpus, (std::vector<int>{8, 24}));
  EXPECT_EQ(machine.cores[8].memory_node, 1);
}

TEST(Machine, UsesOnlyTheCpusThatItMay) {
  const FakeRoot root(two_sockets());
  const auto machine = discover(root.path(), {1, 9, 17});
  ASSERT_EQ(machine.cores.size(), 2u);
  EXPECT_EQ(machine.cores[0].cpus, (std::vector<int>{1, 17}));
  EXPECT_EQ(machine.cores[1].cpus, (std::vector<int>{9}));
}

TEST(Machine, HasOneCpuPerCoreWhereSysSaysNothing) {
  const FakeRoot root(FakeMachine{});
  const auto machine = discover(root.path(), {0, 1, 2});
  ASSERT_EQ(machine.cores.size(), 3u);
  EXPECT_EQ(machine.cores[2].cpus, std::vector<int>{2});
  EXPECT_EQ(machine.cores[2].memory_node, -1);
  EXPECT_TRUE(machine.gpus.empty());
}

TEST(Machine, FindsGpusByPciClassInBusOrder) {
  auto fake = two_sockets();
  fake.devices.push_back(
      {.bus_id = "0000:04:00.0", .node = 0, .device_class = "0x020700"});  // an HCA's class
  fake.devices.push_back(
      {.bus_id = "0000:05:00.0", .vendor = "0x1a03", .device_class = "0x030000"});  // the BMC's display
  fake.devices.push_back(
      {.bus_id = "0000:c1:00.0", .node = 1, .vendor = "0x1002", .device_class = "0x120000"});
  const FakeRoot root(fake);
  const auto machine = discover(root.path(), range(0, 31));
  EXPECT_EQ(bus_ids(machine.gpus), (std::vector<std::string>{"0000:01:00.0", "0000:02:00.0", "0000:03:00.0",
                                                             "0000:81:00.0", "0000:c1:00.0"}));
  EXPECT_EQ(machine.gpus[0].memory_node, 1);
  EXPECT_EQ(machine.gpus[0].cpus, joined(range(8, 15), range(24, 31)));
  EXPECT_EQ(machine.gpus[0].vendor, "nvidia");
  EXPECT_EQ(machine.gpus[4].vendor, "amd");
}

TEST(Machine, LeavesOutGpusThatTheContainerHides) {
  auto fake = two_sockets();
  fake.has_nvidia_proc = true;
  fake.devices[0].in_container = fake.devices[3].in_container = false;
  const FakeRoot root(fake);
  EXPECT_EQ(bus_ids(discover(root.path(), {0}).gpus),
            (std::vector<std::string>{"0000:02:00.0", "0000:03:00.0"}));
}

TEST(Machine, ObeysVisibleDevices) {
  const FakeRoot root(two_sockets());
  const auto gpus = discover(root.path(), {0}).gpus;
  EXPECT_EQ(visible_gpus(gpus, nullptr).size(), 4u);
  EXPECT_EQ(bus_ids(visible_gpus(gpus, "3,1")), (std::vector<std::string>{"0000:81:00.0", "0000:02:00.0"}));
  EXPECT_TRUE(visible_gpus(gpus, "").empty());
  EXPECT_TRUE(visible_gpus(gpus, "-1").empty());
  EXPECT_EQ(visible_gpus(gpus, "0,9,1").size(), 1u)
      << "CUDA ignores what follows a device that does not exist";
  EXPECT_EQ(visible_gpus(gpus, "GPU-1234,GPU-5678").size(), 2u);
}

TEST(Machine, IsThisOneToo) {
  const auto allowed = allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  const auto machine = discover("", allowed);
  EXPECT_EQ(machine.num_cpus(), static_cast<int>(allowed.size()));
  EXPECT_FALSE(machine.host.empty());
}

}  // namespace
}  // namespace trireme::topology
