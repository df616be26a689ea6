#include "launcher/topology/pci_path.h"

#include <gtest/gtest.h>

#include <sstream>

#include "launcher/topology/hca.h"
#include "launcher/topology/machine.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

Place at(const std::string& path, int node = 0, std::vector<int> cpus = {}) {
  Place place{.path = {}, .memory_node = node, .cpus = std::move(cpus)};
  std::istringstream in(path);
  for (std::string part; in >> part;) place.path.push_back(part);
  return place;
}

std::string between(const Place& a, const Place& b, size_t nodes = 2) {
  const auto there = separation(a, b, nodes), back = separation(b, a, nodes);
  EXPECT_EQ(there, back) << "the way back is as far";
  return to_string(there.distance);
}

TEST(Distance, IsThatOfNvidiaSmi) {
  const auto gpu = at("pci0000:15 15:01.0 16:00.0 17:00.0 18:00.0");
  EXPECT_EQ(between(gpu, at("pci0000:15 15:01.0 16:00.0 17:01.0 19:00.0")), "PIX") << "ports of one switch";
  EXPECT_EQ(between(gpu, at("pci0000:15 15:01.0 16:00.0 17:00.0 18:00.1")), "PIX")
      << "functions of one device";
  EXPECT_EQ(between(gpu, at("pci0000:15 15:01.0 16:00.0 17:01.0 19:00.0 1a:00.0 1b:00.0")), "PXB")
      << "a switch more";
  EXPECT_EQ(between(gpu, at("pci0000:15 15:01.0 16:00.0 17:01.0 19:00.0 1a:00.0")), "PXB") << "a bridge more";
  EXPECT_EQ(between(gpu, at("pci0000:15 15:02.0 1c:00.0")), "PHB") << "another root port of one host bridge";
  EXPECT_EQ(between(gpu, at("pci0000:30 30:01.0 31:00.0")), "NODE");
  EXPECT_EQ(between(gpu, at("pci0000:80 80:01.0 81:00.0", 1)), "SYS");
}

TEST(Distance, CountsWhatLiesBetween) {
  const auto gpu = at("pci0000:15 15:01.0 16:00.0 17:00.0 18:00.0");
  EXPECT_EQ(separation(gpu, at("pci0000:15 15:01.0 16:00.0 17:01.0 19:00.0"), 1).hops, 2);
  EXPECT_EQ(separation(gpu, at("pci0000:15 15:01.0 16:00.0 17:01.0 19:00.0 1a:00.0 1b:00.0"), 1).hops, 4);
  EXPECT_EQ(separation(gpu, gpu, 1).hops, 0);
}

TEST(Distance, WithoutAMemoryNodeIsByTheCpus) {
  const auto a = at("pci0001:00 0001:00:00.0", -1, {0, 1}), b = at("pci0002:00 0002:00:00.0", -1, {0, 1}),
             c = at("pci0003:00 0003:00:00.0", -1, {2, 3}), nothing = at("pci0004:00 0004:00:00.0", -1);
  EXPECT_EQ(between(a, b), "NODE");
  EXPECT_EQ(between(a, c), "SYS");
  EXPECT_EQ(between(a, nothing), "SYS");
  EXPECT_EQ(between(nothing, nothing, 2), "PIX") << "the same device";
  EXPECT_EQ(between(a, c, 1), "NODE") << "a machine with one memory node has nothing far";
  EXPECT_EQ(between(at("", 0), at("", 0)), "NODE") << "places without a path";
}

TEST(Place, BeginsAtTheRootComplexWhateverStandsBefore) {
  const FakeRoot root("gpu 0001:00:00.0 vendor=nvidia node=-1 under=LNXSYSTM:00/VMBUS:00/4750-01/pci0001:00");
  const auto gpus = discover(SysFiles(root.path())).gpus;
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].place.path, (std::vector<std::string>{"pci0001:00", "0001:00:00.0"}));
}

TEST(NaturalOrder, ReadsDigitsAsNumbers) {
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{{"mlx5_2", "mlx5_10"},
                                                                             {"mlx5_9", "mlx5_bond_0"},
                                                                             {"ib2s4", "ib2s10"},
                                                                             {"a", "b"},
                                                                             {"a", "a1"},
                                                                             {"", "a"}}) {
    EXPECT_TRUE(natural_less(a, b)) << a << " " << b;
    EXPECT_FALSE(natural_less(b, a)) << a << " " << b;
  }
  EXPECT_FALSE(natural_less("mlx5_1", "mlx5_1"));
}

}  // namespace
}  // namespace trireme::topology
