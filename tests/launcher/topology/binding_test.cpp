#include "launcher/topology/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "launcher/topology/cpu_list.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

std::string cpus_of(const Binding& binding) {
  return format_cpu_list(binding.cpus);
}

TEST(Binding, GivesEachRankAnEvenShareOfWholeCores) {
  const FakeRoot root(two_sockets());
  const auto bindings = bind(discover(root.path(), range(0, 31)), 4, false, 0);
  ASSERT_EQ(bindings.size(), 4u);
  EXPECT_EQ(cpus_of(bindings[0]), "0-3,16-19");
  EXPECT_EQ(cpus_of(bindings[3]), "12-15,28-31");
  EXPECT_EQ(bindings[0].memory_node, 0);
  EXPECT_EQ(bindings[3].memory_node, 1);
  EXPECT_EQ(bindings[0].gpu, -1);
  EXPECT_EQ(bindings[0].threads, 4) << "one a core, not one a hyperthread";
}

TEST(Binding, PrefersNoMemoryNodeForARankOnBoth) {
  const FakeRoot root(two_sockets());
  const auto bindings = bind(discover(root.path(), range(0, 31)), 1, false, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "0-31");
  EXPECT_EQ(bindings[0].memory_node, -1);
  EXPECT_EQ(bindings[0].threads, 16);
}

TEST(Binding, PutsEachRankNearItsGpu) {
  const FakeRoot root(two_sockets());
  const auto bindings = bind(discover(root.path(), range(0, 31)), 4, true, 0);
  const std::vector<std::string> expected{"8-11,24-27", "0-3,16-19", "4-7,20-23", "12-15,28-31"};
  const std::vector<int> nodes{1, 0, 0, 1};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(cpus_of(bindings[rank]), expected[rank]) << rank;
    EXPECT_EQ(bindings[rank].memory_node, nodes[rank]) << rank;
    EXPECT_EQ(bindings[rank].gpu, rank);
  }
}

TEST(Binding, SharesGpusWhereRanksOutnumberThem) {
  auto fake = two_sockets();
  fake.devices.resize(1);
  const FakeRoot root(fake);
  const auto bindings = bind(discover(root.path(), range(0, 31)), 2, true, 0);
  EXPECT_EQ(bindings[0].gpu, 0);
  EXPECT_EQ(bindings[1].gpu, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "8-11,24-27");
  EXPECT_EQ(cpus_of(bindings[1]), "12-15,28-31");
}

TEST(Binding, UsesAllCoresWhereAGpuHasNoneOrDoesNotSay) {
  auto fake = two_sockets();
  fake.devices = {{.bus_id = "0000:01:00.0", .node = -1}, {.bus_id = "0000:02:00.0", .node = 1}};
  const FakeRoot root(fake);
  const auto bindings = bind(discover(root.path(), range(0, 7)), 2, true, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "0-3");
  EXPECT_EQ(cpus_of(bindings[1]), "4-7") << "node 1 is not in our affinity mask";
}

TEST(Binding, SplitsCoresWhenThereAreTooFew) {
  const FakeRoot root(two_sockets());
  const auto machine = discover(root.path(), {0, 16});
  const auto bindings = bind(machine, 2, false, 0);
  EXPECT_EQ(cpus_of(bindings[0]), "0");
  EXPECT_EQ(cpus_of(bindings[1]), "16");
  EXPECT_EQ(bindings[0].threads, 1);
  EXPECT_EQ(bindings[1].threads, 1);
}

TEST(Binding, LetsRanksThatOutnumberTheCpusShareAll) {
  const FakeRoot root(FakeMachine{.cpus = 2, .nodes = {{{0, 1}}}, .devices = {}});
  for (const auto& binding : bind(discover(root.path(), {0, 1}), 3, false, 1)) {
    EXPECT_EQ(cpus_of(binding), "0-1");
    EXPECT_EQ(binding.threads, 1);
  }
}

TEST(Binding, CoversEveryCoreExactlyOnceForAnyNumberOfRanks) {
  const FakeRoot root(two_sockets());
  const auto machine = discover(root.path(), range(0, 31));
  for (int ranks = 1; ranks <= 32; ++ranks) {
    std::multiset<int> used;
    size_t least = 99, most = 0;
    for (const auto& binding : bind(machine, ranks, false, 0)) {
      used.insert(binding.cpus.begin(), binding.cpus.end());
      least = std::min(least, binding.cpus.size());
      most = std::max(most, binding.cpus.size());
    }
    const auto all = range(0, 31);
    EXPECT_EQ(used, std::multiset<int>(all.begin(), all.end())) << ranks;
    EXPECT_LE(most - least, 2u) << ranks;
  }
}

TEST(Binding, StartsNoMoreThreadsThanTheContainerHasCpuTimeFor) {
  auto fake = two_sockets();
  fake.cpu_max = "350000 100000";
  const FakeRoot limited(fake);
  EXPECT_EQ(discover(limited.path(), range(0, 31)).cpu_limit, 4);
  EXPECT_EQ(bind(discover(limited.path(), range(0, 31)), 2, false, 0)[1].threads, 2);
  EXPECT_EQ(bind(discover(limited.path(), range(0, 31)), 8, false, 0)[1].threads, 1);
  fake.cpu_max = "max 100000";
  const FakeRoot unlimited(fake);
  EXPECT_EQ(discover(unlimited.path(), range(0, 31)).cpu_limit, 0);
}

TEST(Binding, TakesTheNumberOfThreadsThatIsAskedFor) {
  const FakeRoot root(two_sockets());
  EXPECT_EQ(bind(discover(root.path(), range(0, 31)), 4, false, 3)[2].threads, 3);
}

}  // namespace
}  // namespace trireme::topology
