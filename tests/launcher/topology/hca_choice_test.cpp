#include "launcher/topology/hca_choice.h"

#include <gtest/gtest.h>

#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

// Two GPUs, each behind a switch of its own, on two memory nodes.
const std::string kGpus = R"(
cpus 4
node 0 cpus=0-1
node 1 cpus=2-3
gpu 0000:13:00.0 vendor=nvidia node=0 under=pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0
gpu 0000:83:00.0 vendor=nvidia node=1 under=pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0
)";
// The places of HCAs: beside the first GPU, beside the second, and on a bridge of its own on either node.
const std::string kNear0 = "at=0000:14:00.0 node=0 under=pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0\n";
const std::string kNear1 = "at=0000:84:00.0 node=1 under=pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0\n";
const std::string kFar0 = "at=0000:41:00.0 node=0 under=pci0000:40/0000:40:01.0\n";
const std::string kFar2 = "at=0000:61:00.0 node=0 under=pci0000:60/0000:60:01.0\n";
const std::string kFar1 = "at=0000:c1:00.0 node=1 under=pci0000:c0/0000:c0:01.0\n";
const std::string kInfiniBand = "port 1 layer=ib rate=200\n";
const std::string kRoce = "port 1 layer=eth rate=200\nipv4 10.0.0.1 net=eth1\n";

struct Outcome {
  std::vector<std::string> used, warnings;
  std::map<std::string, std::string> dropped;
};

Outcome choose(const std::string& hcas, const std::optional<std::string>& asked = std::nullopt,
               const std::string& gpus = kGpus) {
  const FakeRoot root(gpus + hcas);
  const auto machine = discover(SysFiles(root.path()));
  const auto choice = choose_hcas(machine, asked);
  Outcome outcome{.used = {}, .warnings = choice.warnings, .dropped = {}};
  for (const auto port : choice.used) outcome.used.push_back(port_name(machine, port));
  for (const auto& d : choice.dropped) outcome.dropped[port_name(machine, d.port)] = d.reason;
  EXPECT_EQ(outcome.used.size() + choice.dropped.size(), [&] {
    size_t ports = 0;
    for (const auto& hca : machine.hcas) ports += hca.ports.size();
    return ports;
  }()) << "every port is used or dropped, once";
  return outcome;
}

using Names = std::vector<std::string>;

TEST(HcaChoice, TakesAllGoodPortsInTheirNaturalOrder) {
  const auto outcome = choose("hca mlx5_10 " + kNear0 + kInfiniBand + "hca mlx5_2 " + kNear1 + kInfiniBand);
  EXPECT_EQ(outcome.used, (Names{"mlx5_2:1", "mlx5_10:1"}));
  EXPECT_TRUE(outcome.warnings.empty());
}

TEST(HcaChoice, TakesBothPortsOfAnHca) {
  EXPECT_EQ(
      choose("hca mlx4_0 " + kNear0 + kInfiniBand + "port 2 layer=ib rate=200\n", std::nullopt, "cpus 1\n")
          .used,
      (Names{"mlx4_0:1", "mlx4_0:2"}));
}

TEST(HcaChoice, DropsAPortThatIsDown) {
  const auto outcome = choose("hca a " + kNear0 + kInfiniBand + "hca b " + kNear1 +
                              "port 1 layer=ib rate=200 state=DOWN link=Disabled\n");
  EXPECT_EQ(outcome.used, Names{"a:1"});
  EXPECT_EQ(outcome.dropped.at("b:1"), "is down (state DOWN, link Disabled)");
}

TEST(HcaChoice, DropsAPortThatTheSubnetManagerHasNotTakenIn) {
  EXPECT_EQ(choose("hca a " + kNear0 + "port 1 layer=ib rate=200 state=INIT\n").used, Names{});
}

TEST(HcaChoice, DropsAnHcaWhoseDeviceFileTheContainerLacks) {
  const auto outcome = choose("hca a no_file=1 " + kNear0 + kInfiniBand + "hca b " + kNear1 + kInfiniBand);
  EXPECT_EQ(outcome.used, Names{"b:1"});
  EXPECT_NE(outcome.dropped.at("a:1").find("--device=/dev/infiniband"), std::string::npos);
}

TEST(HcaChoice, DropsALinkLayerThatNeedsAPlugin) {
  const auto outcome = choose("hca rdmap0 " + kNear0 + "port 1 layer=Unspecified rate=100\n");
  EXPECT_NE(outcome.dropped.at("rdmap0:1").find("'Unspecified', which NCCL reaches only through a plugin"),
            std::string::npos);
}

TEST(HcaChoice, DropsARocePortWithoutAnAddressThatLeadsAnywhere) {
  const std::string link_local =
      "port 1 layer=eth rate=200\n"
      "gid 0 address=fe80:0000:0000:0000:0ac0:ebff:feda:1cfb type=v1\n"
      "gid 1 address=fe80:0000:0000:0000:0ac0:ebff:feda:1cfb type=v2\n"
      "gid 2 address=0000:0000:0000:0000:0000:ffff:0a00:0001 type=unreadable\n";
  const auto outcome = choose("hca a " + kNear0 + link_local + "hca b " + kNear1 + kRoce);
  EXPECT_EQ(outcome.used, Names{"b:1"});
  EXPECT_NE(outcome.dropped.at("a:1").find("no address that leads to other hosts"), std::string::npos);
}

TEST(HcaChoice, DropsVirtualFunctionsWherePhysicalOnesAreLeft) {
  const std::string vf = "hca b vf_of=0000:14:00.0 at=0000:14:00.1 node=0\n" + kInfiniBand;
  EXPECT_EQ(choose("hca a " + kNear0 + kInfiniBand + vf).used, Names{"a:1"});
  EXPECT_EQ(choose("hca a no_file=1 " + kNear0 + kInfiniBand + vf).used, Names{"b:1"})
      << "the physical one is not ours to use";
}

TEST(HcaChoice, KeepsTheLinkLayerThatIsNearerToTheGpus) {
  const auto outcome = choose("hca a " + kNear0 + kRoce + "hca b " + kNear1 + kRoce + "hca c " + kFar0 +
                              "port 1 layer=ib rate=400\n");
  EXPECT_EQ(outcome.used, (Names{"a:1", "b:1"}));
  EXPECT_EQ(outcome.dropped.at("c:1"),
            "is InfiniBand; NCCL does not mix link layers, and Ethernet is nearer to the GPUs");
}

TEST(HcaChoice, KeepsTheFasterLinkLayerWhereBothAreAsNear) {
  const std::string fast = "port 1 layer=ib rate=400\n", slow = "port 1 layer=ib rate=100\n";
  EXPECT_EQ(choose("hca a " + kFar0 + kRoce + "hca b " + kFar2 + fast).used, Names{"b:1"});
  EXPECT_EQ(choose("hca a " + kFar0 + kRoce + "hca b " + kFar2 + slow).used, Names{"a:1"});
}

TEST(HcaChoice, DropsThePortOfTheDefaultRoute) {
  const std::string hcas =
      "hca a " + kFar0 + "port 1 layer=eth rate=200\nipv4 10.1.0.1 net=eth0\n" + "hca b " + kFar1 + kRoce;
  EXPECT_EQ(choose(hcas).used, (Names{"a:1", "b:1"})) << "no route, no reason";
  EXPECT_EQ(choose(hcas + "net eth0\nroute default via=eth0").used, Names{"b:1"});
  EXPECT_EQ(choose(hcas + "net eth0\nroute 10.1.0.0/16 via=eth0").used.size(), 2u) << "not the default route";
  const auto above =
      choose(hcas + "net eth0 above=bond0\nnet bond0 above=vlan7\nnet vlan7\nroute default via=vlan7");
  EXPECT_EQ(above.used, Names{"b:1"}) << "through a bond and a VLAN";
  EXPECT_EQ(above.dropped.at("a:1"), "eth0 carries the default route: a network for management");
}

TEST(HcaChoice, KeepsThePortOfTheDefaultRouteWhereThereIsNoOther) {
  EXPECT_EQ(choose("hca a " + kFar0 + kRoce + "net eth1\nroute default via=eth1").used, Names{"a:1"});
}

TEST(HcaChoice, KeepsInfiniBandThatHasTheDefaultRoute) {
  EXPECT_EQ(choose("hca a " + kFar0 + "port 1 layer=ib rate=200 net=ib0\nhca b " + kFar1 + kInfiniBand +
                   "net ib0\nroute default via=ib0")
                .used.size(),
            2u);
}

TEST(HcaChoice, DropsStorageWhereEveryGpuHasANearPort) {
  const std::string near = "hca a " + kNear0 + kInfiniBand + "hca b " + kNear1 + kInfiniBand;
  const auto outcome = choose(near + "hca c " + kFar0 + "port 1 layer=ib rate=800\n");
  EXPECT_EQ(outcome.used, (Names{"a:1", "b:1"})) << "however fast it is";
  EXPECT_NE(outcome.dropped.at("c:1").find("shares no PCI switch with a GPU"), std::string::npos);
}

TEST(HcaChoice, KeepsFarPortsWhereAGpuHasNoNearOne) {
  EXPECT_EQ(choose("hca a " + kNear0 + kInfiniBand + "hca c " + kFar1 + kInfiniBand).used,
            (Names{"a:1", "c:1"}));
}

TEST(HcaChoice, DropsAPortOfLessThanHalfTheBestRate) {
  const std::string a = "hca a " + kFar0 + kInfiniBand;
  EXPECT_EQ(choose(a + "hca b " + kFar1 + "port 1 layer=ib rate=99\n").used, Names{"a:1"});
  EXPECT_EQ(choose(a + "hca b " + kFar1 + "port 1 layer=ib rate=99\n").dropped.at("b:1"),
            "has 99 Gb/s, less than half of 200");
  const auto half = choose(a + "hca b " + kFar1 + "port 1 layer=ib rate=100\n");
  EXPECT_EQ(half.used.size(), 2u);
  EXPECT_EQ(half.warnings,
            Names{"b:1 has 100 Gb/s and a:1 has 200 Gb/s: NCCL goes at the pace of the slower"});
}

TEST(HcaChoice, WarnsOfGpusThatAreFarFromAllPorts) {
  EXPECT_EQ(choose("hca a " + kFar1 + kInfiniBand).warnings,
            Names{"no port is near GPU 0: what it sends goes from one memory node to another"});
  EXPECT_EQ(choose("hca a " + kFar1 + "port 1 layer=ib rate=200 state=DOWN\n").warnings,
            Names{"no port of an HCA can be used: NCCL will use sockets"});
  EXPECT_TRUE(choose("").warnings.empty()) << "a machine without HCAs is none to warn of";
}

TEST(HcaChoice, ObeysTheUsersList) {
  const std::string hcas = "hca mlx5_0 " + kNear0 + kInfiniBand + "hca mlx5_1 " + kFar0 + kInfiniBand +
                           "hca mlx5_10 " + kNear1 + kInfiniBand;
  EXPECT_EQ(choose(hcas, "=mlx5_0,mlx5_1").used, (Names{"mlx5_0:1", "mlx5_1:1"}))
      << "though it looks like storage";
  EXPECT_EQ(choose(hcas, "=mlx5_0,mlx5_1").dropped.at("mlx5_10:1"), "is not in your NCCL_IB_HCA");
  EXPECT_EQ(choose(hcas, "mlx5_1").used, (Names{"mlx5_1:1", "mlx5_10:1"})) << "a beginning of a name";
  EXPECT_EQ(choose(hcas, "^=mlx5_1").used, (Names{"mlx5_0:1", "mlx5_10:1"}));
  EXPECT_EQ(choose(hcas, "^mlx5_1").used, Names{"mlx5_0:1"});
  EXPECT_EQ(choose(hcas, "=mlx5_0:2").used, Names{}) << "that port does not exist";
}

TEST(HcaChoice, UsesNoDeadPortEvenIfTheUserNamesIt) {
  const auto outcome = choose("hca a " + kNear0 + "port 1 layer=ib rate=200 state=DOWN\n", "=a");
  EXPECT_EQ(outcome.dropped.at("a:1"), "is down (state DOWN, link Polling)");
}

TEST(NearestPorts, SpreadRanksOverPortsThatAreAsNear) {
  const FakeRoot root(kGpus + "hca a " + kFar0 + kInfiniBand + "hca b " + kFar2 + kInfiniBand);
  const auto machine = discover(SysFiles(root.path()));
  const std::vector<Place> places(4, machine.gpus[0].place);
  const auto ports = nearest_ports(machine, choose_hcas(machine, std::nullopt), places);
  EXPECT_EQ(port_name(machine, *ports[0]), "a:1");
  EXPECT_EQ(port_name(machine, *ports[1]), "b:1");
  EXPECT_EQ(port_name(machine, *ports[2]), "a:1");
}

TEST(NearestPorts, PreferANearPortThatIsTakenToAFarOneThatIsFree) {
  const FakeRoot root(kGpus + "hca a " + kNear0 + kInfiniBand + "hca b " + kFar1 + kInfiniBand);
  const auto machine = discover(SysFiles(root.path()));
  const std::vector<Place> places(2, machine.gpus[0].place);
  const auto ports = nearest_ports(machine, choose_hcas(machine, std::nullopt), places);
  EXPECT_EQ(ports[0], ports[1]);
  EXPECT_EQ(port_name(machine, *ports[1]), "a:1");
}

TEST(Differences, NameTheHostsThatAreUnlikeMostOthers) {
  const HostPorts good{"n0", "InfiniBand", {400, 400}};
  auto other = good;
  other.host = "n1";
  EXPECT_TRUE(differences({good, other}).empty()) << "names of HCAs may differ, rates and numbers may not";
  EXPECT_TRUE(differences({}).empty());
  const HostPorts one_less{"n2", "InfiniBand", {400}}, none{"n3", "", {}},
      ethernet{"n4", "Ethernet", {400, 400}};
  const auto found = differences({good, one_less, other, none, good, ethernet});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0],
            "n2 has 1 InfiniBand port of 400 Gb/s, 3 of 6 hosts have 2 InfiniBand ports of 400, 400 Gb/s: "
            "NCCL pairs "
            "ports one by one and may hang");
  EXPECT_TRUE(found[1].starts_with("n3 has no usable HCA")) << found[1];
  EXPECT_TRUE(found[2].starts_with("n4 has 2 Ethernet ports")) << found[2];
}

}  // namespace
}  // namespace trireme::topology
