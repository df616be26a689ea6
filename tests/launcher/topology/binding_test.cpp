#include "launcher/topology/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "launcher/topology/cpu_list.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

// The machine of a table, as if only these CPUs were granted.
Machine machine_of(const std::string& table, const std::string& allowed = "0-31") {
  const FakeRoot root(table);
  return discover(SysFiles(root.path()), parse_cpu_list(allowed));
}

std::string cpus_of(const Binding& binding) {
  return format_cpu_list(binding.cpus);
}

TEST(Binding, GivesEachRankAnEvenShareOfWholeCores) {
  const auto bindings = bind(machine_of(kTwoSockets), 4, false, 0);
  ASSERT_EQ(bindings.size(), 4u);
  EXPECT_EQ(cpus_of(bindings[0]), "0-3,16-19");
  EXPECT_EQ(cpus_of(bindings[3]), "12-15,28-31");
  EXPECT_EQ(bindings[0].memory_node, 0);
  EXPECT_EQ(bindings[3].memory_node, 1);
  EXPECT_EQ(bindings[0].gpu, -1);
  EXPECT_EQ(bindings[0].threads, 4) << "one a core, not one a hyperthread";
}

TEST(Binding, PrefersNoMemoryNodeForARankOnBoth) {
  const auto bindings = bind(machine_of(kTwoSockets), 1, false, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "0-31");
  EXPECT_EQ(bindings[0].memory_node, -1);
  EXPECT_EQ(bindings[0].threads, 16);
}

TEST(Binding, PutsEachRankNearItsGpu) {
  const auto bindings = bind(machine_of(kTwoSockets + kFourGpus), 4, true, 0);
  const std::vector<std::string> expected{"8-11,24-27", "0-3,16-19", "4-7,20-23", "12-15,28-31"};
  const std::vector<int> nodes{1, 0, 0, 1};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(cpus_of(bindings[rank]), expected[rank]) << rank;
    EXPECT_EQ(bindings[rank].memory_node, nodes[rank]) << rank;
    EXPECT_EQ(bindings[rank].gpu, rank);
  }
}

TEST(Binding, SharesGpusWhereRanksOutnumberThem) {
  const auto bindings = bind(machine_of(kTwoSockets + "gpu 0000:01:00.0 vendor=nvidia node=1"), 2, true, 0);
  EXPECT_EQ(bindings[0].gpu, 0);
  EXPECT_EQ(bindings[1].gpu, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "8-11,24-27");
  EXPECT_EQ(cpus_of(bindings[1]), "12-15,28-31");
}

TEST(Binding, UsesAllCoresWhereAGpuHasNoneOrDoesNotSay) {
  const std::string gpus = "gpu 0000:01:00.0 vendor=nvidia\ngpu 0000:02:00.0 vendor=nvidia node=1";
  const auto bindings = bind(machine_of(kTwoSockets + gpus, "0-7"), 2, true, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "0-3");
  EXPECT_EQ(cpus_of(bindings[1]), "4-7") << "node 1 is not in our affinity mask";
}

TEST(Binding, SplitsCoresWhenThereAreTooFew) {
  const auto machine = machine_of(kTwoSockets, "0,16");
  const auto bindings = bind(machine, 2, false, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "0");
  EXPECT_EQ(cpus_of(bindings[1]), "16");
  EXPECT_EQ(bindings[0].threads, 1);
  EXPECT_EQ(bindings[1].threads, 1);
}

TEST(Binding, LetsRanksThatOutnumberTheCpusShareAll) {
  for (const auto& binding : bind(machine_of("cpus 2\nnode 0 cpus=0-1", "0-1"), 3, false, 1)) {
    EXPECT_EQ(cpus_of(binding), "0-1");
    EXPECT_EQ(binding.threads, 1);
  }
}

TEST(Binding, CoversEveryCoreExactlyOnceForAnyNumberOfRanks) {
  const auto machine = machine_of(kTwoSockets);
  for (int ranks = 1; ranks <= 32; ++ranks) {
    std::multiset<int> used;
    size_t least = 99, most = 0;
    for (const auto& binding : bind(machine, ranks, false, 0)) {
      used.insert(binding.cpus.begin(), binding.cpus.end());
      least = std::min(least, binding.cpus.size());
      most = std::max(most, binding.cpus.size());
    }
    const auto all = parse_cpu_list("0-31");
    EXPECT_EQ(used, std::multiset<int>(all.begin(), all.end())) << ranks;
    EXPECT_LE(most - least, 2u) << ranks;
  }
}

TEST(Binding, StartsNoMoreThreadsThanTheContainerHasCpuTimeFor) {
  const auto limited = machine_of(kTwoSockets + "limit 350000 period=100000");
  EXPECT_EQ(limited.cpu_limit, 4);
  EXPECT_EQ(bind(limited, 2, false, 0)[1].threads, 2);
  EXPECT_EQ(bind(limited, 8, false, 0)[1].threads, 1);
  EXPECT_EQ(machine_of(kTwoSockets + "limit max period=100000").cpu_limit, 0);
}

TEST(Binding, TakesTheNumberOfThreadsThatIsAskedFor) {
  EXPECT_EQ(bind(machine_of(kTwoSockets), 4, false, 3)[2].threads, 3);
}

// One GPU says where it is, the other does not: its rank gets what the first leaves, not the same cores.
TEST(Binding, GivesRanksOfOverlappingGpusDifferentCores) {
  const std::string gpus = "gpu 0000:01:00.0 vendor=nvidia\ngpu 0000:02:00.0 vendor=nvidia node=0";
  const auto bindings = bind(machine_of(kTwoSockets + gpus), 2, true, 0);
  EXPECT_EQ(cpus_of(bindings[1]), "0-7,16-23") << "the one that is near something comes first";
  EXPECT_EQ(cpus_of(bindings[0]), "8-15,24-31");
}

TEST(Binding, PrefersNoMemoryThatTheContainerMayNotUse) {
  const auto table = kTwoSockets + "allowed cpus=8-15 mems=0\n" + kFourGpus;
  const FakeRoot root(table);
  const auto machine = discover(SysFiles(root.path()));
  EXPECT_EQ(machine.num_cpus(), 8) << "the mask of this process is obeyed";
  const auto bindings = bind(machine, 4, true, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "8-9");
  EXPECT_EQ(bindings[0].memory_node, -1) << "node 1, where the CPUs are, is not granted";
}

}  // namespace
}  // namespace trireme::topology
