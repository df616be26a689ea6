#include "launcher/topology/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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

Machine machine_of(const std::string& table) {
  const FakeRoot root(table);
  return discover(SysFiles(root.path()));
}

TEST(Machine, HasCoresWithBothTheirThreadsByMemoryNode) {
  const auto machine = machine_of(kTwoSockets);
  ASSERT_EQ(machine.cores.size(), 16u);
  EXPECT_EQ(machine.num_cpus(), 32);
  EXPECT_EQ(machine.cores[0].cpus, (std::vector<int>{0, 16}));
  EXPECT_EQ(machine.cores[0].memory_node, 0);
  EXPECT_EQ(machine.cores[8].cpus, (std::vector<int>{8, 24}));
  EXPECT_EQ(machine.cores[8].memory_node, 1);
  ASSERT_EQ(machine.memory_nodes.size(), 2u);
  EXPECT_EQ(format_cpu_list(machine.memory_nodes[1].cpus), "8-15,24-31");
}

TEST(Machine, UsesOnlyTheCpusThatItIsTold) {
  const FakeRoot root(kTwoSockets);
  const auto machine = discover(SysFiles(root.path()), std::vector<int>{1, 9, 17});
  ASSERT_EQ(machine.cores.size(), 2u);
  EXPECT_EQ(machine.cores[0].cpus, (std::vector<int>{1, 17}));
  EXPECT_EQ(machine.cores[1].cpus, (std::vector<int>{9}));
}

TEST(Machine, ObeysTheMaskThatSlurmOrAContainerHasGiven) {
  const auto table = kTwoSockets + "allowed cpus=4-7,20-23,40 mems=0";
  const auto machine = machine_of(table);
  ASSERT_EQ(machine.cores.size(), 4u) << "CPU 40 is not online";
  EXPECT_EQ(machine.cores[0].cpus, (std::vector<int>{4, 20}));
  EXPECT_TRUE(machine.may_use_memory_of(0));
  EXPECT_FALSE(machine.may_use_memory_of(1));
}

TEST(Machine, ObeysTheCpusetOfItsControlGroupWhereProcSaysNothing) {
  EXPECT_EQ(machine_of("cpus 8\ncpuset 2-3").num_cpus(), 2);
  EXPECT_EQ(machine_of("cpus 8").num_cpus(), 8);
}

// Grace Hopper shows the memory of its GPUs as nodes without CPUs; some firmware puts all CPUs on every node.
TEST(Machine, IsNotMisledByOddMemoryNodes) {
  const auto gpu_memory = machine_of("cpus 2\nnode 0 cpus=0-1\nnode 1 cpus=\nallowed cpus=0-1 mems=0-1");
  EXPECT_EQ(gpu_memory.memory_nodes.size(), 1u);
  const auto buggy = machine_of("cpus 2\nnode 0 cpus=0-1\nnode 1 cpus=0-1\nnode 2 cpus=0-1");
  EXPECT_EQ(buggy.cores[0].memory_node, -1);
}

TEST(Machine, FindsItsCpusOneByOneWhereNoListSaysWhichAreOnline) {
  const FakeRoot root("cpus 4");
  std::filesystem::remove(root.path() + "/sys/devices/system/cpu/online");
  std::ofstream(root.path() + "/sys/devices/system/cpu/cpu2/online") << "0\n";
  std::filesystem::create_directories(root.path() + "/sys/devices/system/cpu/cpufreq");
  std::vector<int> cpus;
  for (const auto& core : discover(SysFiles(root.path())).cores) cpus.push_back(core.cpus.front());
  EXPECT_EQ(cpus, (std::vector<int>{0, 1, 3}));
}

TEST(Machine, HasOneCpuPerCoreWhereSysSaysNothing) {
  const FakeRoot root("host nothing");
  const auto machine = discover(SysFiles(root.path()), std::vector<int>{0, 1, 2});
  ASSERT_EQ(machine.cores.size(), 3u);
  EXPECT_EQ(machine.cores[2].cpus, std::vector<int>{2});
  EXPECT_EQ(machine.cores[2].memory_node, -1);
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_EQ(machine.host, "nothing");
}

TEST(Machine, FindsGpusByPciClassInBusOrder) {
  const auto machine = machine_of(kTwoSockets + kFourGpus + R"(
pci 0000:04:00.0 vendor=0x10de class=0x020700    # an HCA's class
pci 0000:05:00.0 vendor=0x1a03 class=0x030000    # the BMC's display
gpu 10000:01:00.0 vendor=nvidia                  # a domain of five digits
)");
  EXPECT_EQ(bus_ids(machine.gpus), (std::vector<std::string>{"0000:01:00.0", "0000:02:00.0", "0000:03:00.0",
                                                             "0000:81:00.0", "10000:01:00.0"}));
  EXPECT_EQ(machine.gpus[0].place.memory_node, 1);
  EXPECT_EQ(format_cpu_list(machine.gpus[0].place.cpus), "8-15,24-31");
  EXPECT_EQ(machine.gpus[0].vendor, "nvidia");
  EXPECT_EQ(machine.gpus[0].name, "NVIDIA Test");
  EXPECT_EQ(machine.gpus[0].uuid, "GPU-0000:01:00.0");
}

TEST(Machine, LeavesOutGpusThatTheContainerHides) {
  const auto gpus = machine_of(R"(
gpu 0000:01:00.0 vendor=nvidia hidden=1
gpu 0000:02:00.0 vendor=nvidia
)")
                        .gpus;
  EXPECT_EQ(bus_ids(gpus), (std::vector<std::string>{"0000:02:00.0"}));
}

// HIP has no CUDA_DEVICE_ORDER: it counts as AMD's driver does, and that is not always the order of the bus.
TEST(Machine, CountsAmdGpusAsTheirDriverDoes) {
  const auto gpus = machine_of(R"(
gpu 0000:0a:00.0 vendor=amd class=0x038000 kfd=6
gpu 0000:0f:00.0 vendor=amd class=0x038000 kfd=7 hidden=1   # another container's
gpu 0000:4a:00.0 vendor=amd class=0x038000 kfd=4 device=0x740f
gpu 0000:50:00.0 vendor=amd class=0x038000 kfd=15
)")
                        .gpus;
  EXPECT_EQ(bus_ids(gpus), (std::vector<std::string>{"0000:4a:00.0", "0000:0a:00.0", "0000:50:00.0"}));
  EXPECT_EQ(gpus[0].name, "MI210");
}

TEST(Machine, ObeysVisibleDevices) {
  const auto gpus = machine_of(kFourGpus).gpus;
  const auto visible = [&](const char* list) {
    return bus_ids(visible_gpus(gpus, Settings().set("CUDA_VISIBLE_DEVICES", list)));
  };
  EXPECT_EQ(visible_gpus(gpus, {}).size(), 4u);
  EXPECT_EQ(visible("3,1"), (std::vector<std::string>{"0000:81:00.0", "0000:02:00.0"}));
  EXPECT_TRUE(visible("").empty());
  EXPECT_TRUE(visible("-1").empty());
  EXPECT_EQ(visible("0,9,1").size(), 1u) << "CUDA ignores what follows a device that does not exist";
  EXPECT_EQ(visible("GPU-0000:03"), std::vector<std::string>{"0000:03:00.0"}) << "a UUID, or its beginning";
  EXPECT_EQ(visible("MIG-1,MIG-2"), (std::vector<std::string>{"", ""})) << "which one, nobody says";
  EXPECT_EQ(visible_gpus(gpus, Settings().set("HIP_VISIBLE_DEVICES", "0")).size(), 4u) << "not CUDA's";
}

TEST(Machine, ObeysBothOfAmdsVisibleDevices) {
  const auto gpus = machine_of(R"(
gpu 0000:01:00.0 vendor=amd
gpu 0000:02:00.0 vendor=amd
gpu 0000:03:00.0 vendor=amd
)")
                        .gpus;
  auto settings = Settings().set("ROCR_VISIBLE_DEVICES", "1,2");
  EXPECT_EQ(bus_ids(visible_gpus(gpus, settings)),
            (std::vector<std::string>{"0000:02:00.0", "0000:03:00.0"}));
  settings.set("HIP_VISIBLE_DEVICES", "1");
  EXPECT_EQ(bus_ids(visible_gpus(gpus, settings)), std::vector<std::string>{"0000:03:00.0"})
      << "HIP counts what ROCR has left";
  settings.set("CUDA_VISIBLE_DEVICES", "0");
  EXPECT_EQ(visible_gpus(gpus, settings)[0].bus_id, "0000:03:00.0")
      << "read only without HIP_VISIBLE_DEVICES";
}

TEST(Machine, IsThisOneToo) {
  const auto allowed = allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  const auto machine = discover(SysFiles());
  EXPECT_EQ(machine.num_cpus(), static_cast<int>(allowed.size()));
  EXPECT_FALSE(machine.host.empty());
}

}  // namespace
}  // namespace trireme::topology
