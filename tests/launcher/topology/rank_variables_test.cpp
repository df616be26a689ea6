#include "launcher/topology/rank_variables.h"

#include <gtest/gtest.h>

#include "launcher/topology/host_plan.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

const std::string kMachine = R"(
cpus 4
node 0 cpus=0-3
gpu 0000:00:05.0 vendor=nvidia node=0
gpu 0000:00:06.0 vendor=nvidia node=0
net lo
net eth0
net ib0
route default via=eth0 metric=100
route 10.8.0.0/16 via=ib0
)";
const std::string kHcas = R"(
hca mlx5_0 at=0000:00:08.0 node=0
port 1 layer=ib rate=200 net=ib0
hca mlx5_1 at=0000:00:09.0 node=0
port 1 layer=ib rate=200
)";

using Variables = std::map<std::string, std::string>;

Variables of(const std::vector<Variable>& list) {
  Variables variables;
  for (const auto& v : list) {
    EXPECT_FALSE(v.why.empty()) << v.name;
    EXPECT_TRUE(variables.emplace(v.name, v.value).second) << v.name << " twice";
  }
  return variables;
}

HostPlan plan_of(const std::string& table, const JobShape& job, const Settings& user = {}, int ranks = 2) {
  const FakeRoot root(table);
  return plan_host(discover(SysFiles(root.path())), user, job, ranks);
}

TEST(RankVariables, OfOneHostNameItsPortsAndTheLoopback) {
  EXPECT_EQ(of(plan_of(kMachine + kHcas, {}).variables),
            (Variables{{"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"}, {"NCCL_SOCKET_IFNAME", "=lo"}}));
  EXPECT_TRUE(plan_of(kMachine + kHcas, {}).ranks[0].variables.empty()) << "MPI needs no port within a host";
}

TEST(RankVariables, OfSeveralHostsNameTheInterfaceAndThePortOfEachRank) {
  const auto plan = plan_of(kMachine + kHcas, {.num_hosts = 2});
  EXPECT_EQ(of(plan.variables).at("NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_EQ(of(plan.variables).at("NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1") << "the whole list for every rank";
  EXPECT_EQ(of(plan.ranks[0].variables), (Variables{{"UCX_NET_DEVICES", "mlx5_0:1"}}));
  EXPECT_EQ(of(plan.ranks[1].variables), (Variables{{"UCX_NET_DEVICES", "mlx5_1:1"}}));
}

TEST(RankVariables, UseTheInterfaceThatLeadsToTheFirstHost) {
  const auto variables = of(plan_of(kMachine + kHcas, {.num_hosts = 2, .first_host = 0x0a080003}).variables);
  EXPECT_EQ(variables.at("NCCL_SOCKET_IFNAME"), "=ib0");
}

TEST(RankVariables, TurnRdmaOffWhereAHostHasNone) {
  EXPECT_EQ(of(plan_of(kMachine, {}).variables).count("NCCL_IB_DISABLE"), 0u)
      << "one host has nobody to agree with";
  const auto none = plan_of(kMachine, {.num_hosts = 2});
  EXPECT_EQ(of(none.variables).at("NCCL_IB_DISABLE"), "1");
  EXPECT_TRUE(none.ranks[0].variables.empty());
  const auto elsewhere = plan_of(kMachine + kHcas, {.num_hosts = 2, .use_rdma = false});
  EXPECT_EQ(of(elsewhere.variables).at("NCCL_IB_DISABLE"), "1");
  EXPECT_EQ(of(elsewhere.variables).count("NCCL_IB_HCA"), 0u);
  EXPECT_TRUE(elsewhere.ranks[0].variables.empty()) << "nor MPI";
}

TEST(RankVariables, LeaveAloneWhatTheUserHasSet) {
  auto user = Settings().set("NCCL_IB_HCA", "=mlx5_1").set("NCCL_SOCKET_IFNAME", "eth", "/etc/nccl.conf");
  const auto plan = plan_of(kMachine + kHcas, {.num_hosts = 2}, user);
  EXPECT_TRUE(plan.variables.empty());
  EXPECT_EQ(of(plan.ranks[0].variables).at("UCX_NET_DEVICES"), "mlx5_1:1") << "MPI keeps to the same ports";
  user.set("UCX_NET_DEVICES", "all");
  EXPECT_TRUE(plan_of(kMachine + kHcas, {.num_hosts = 2}, user).ranks[0].variables.empty());
}

TEST(RankVariables, OfAMachineWithoutGpusAreForMpiAlone) {
  const auto plan = plan_of(
      "cpus 4\nnode 0 cpus=0-1\nnode 1 cpus=2-3\nnet lo\n"
      "hca a at=0000:01:00.0 node=0\nport 1 layer=ib rate=100\n"
      "hca b at=0000:81:00.0 node=1\nport 1 layer=ib rate=100\n",
      {.num_hosts = 2});
  EXPECT_TRUE(plan.variables.empty());
  EXPECT_EQ(of(plan.ranks[0].variables).at("UCX_NET_DEVICES"), "a:1");
  EXPECT_EQ(of(plan.ranks[1].variables).at("UCX_NET_DEVICES"), "b:1") << "nearest to its CPUs";
}

TEST(RankVariables, NeverSetTheGidIndex) {
  const auto plan =
      plan_of(kMachine + "hca a at=0000:00:08.0 node=0\nport 1 layer=eth rate=100\nipv4 10.0.0.1 net=e1",
              {.num_hosts = 2});
  EXPECT_EQ(of(plan.variables).count("NCCL_IB_GID_INDEX"), 0u) << "NCCL finds it for each port by itself";
  EXPECT_EQ(of(plan.variables).count("NCCL_IB_ADDR_FAMILY"), 0u);
}

TEST(RankVariables, SayThatAddressesAreIpv6WhereThereAreNoOthers) {
  const std::string ipv6 =
      "hca a at=0000:00:08.0 node=0\nport 1 layer=eth rate=100\n"
      "gid 0 address=fe80:0000:0000:0000:0ac0:ebff:feda:1cfb type=v2\n"
      "gid 3 address=fd00:0000:0000:0001:0ac0:ebff:feda:1cfb type=v2\n";
  EXPECT_EQ(of(plan_of(kMachine + ipv6, {}).variables).at("NCCL_IB_ADDR_FAMILY"), "AF_INET6");
}

TEST(RankVariables, OfRocmAreThoseOfItsModels) {
  const auto variables = [](const std::string& device) {
    return of(plan_of("cpus 4\nnode 0 cpus=0-3\ngpu 0000:0c:00.0 vendor=amd device=" + device, {}).variables);
  };
  EXPECT_EQ(variables("0x74a1"), (Variables{{"HSA_NO_SCRATCH_RECLAIM", "1"}}));
  EXPECT_TRUE(variables("0x740f").empty()) << "MI210";
}

HcaPort port_with(const std::string& gids, const std::string& layer = "eth") {
  const FakeRoot root("hca a at=0000:00:08.0\nport 1 layer=" + layer + " rate=100\n" + gids);
  return find_hcas(SysFiles(root.path())).at(0).ports.at(0);
}

TEST(GidIndex, IsTheFirstOfRoceV2WithAnIpv4Address) {
  EXPECT_EQ(gid_index(port_with("ipv4 10.0.0.1 net=e1")), 3);
  EXPECT_EQ(gid_index(port_with("gid 5 address=0000:0000:0000:0000:0000:ffff:0a00:0001 type=v2\n"
                                "gid 11 address=0000:0000:0000:0000:0000:ffff:0a01:0001 type=v2\n")),
            5)
      << "of several, as containers with more than one network have them";
  EXPECT_EQ(gid_index(port_with("gid 2 address=0000:0000:0000:0000:0000:ffff:0a00:0001 type=v1")), 2);
  EXPECT_EQ(gid_index(port_with("gid 0 address=fe80:0000:0000:0000:0ac0:ebff:feda:1cfb type=v2\n"
                                "gid 4 address=fd00:0000:0000:0001:0ac0:ebff:feda:1cfb type=v1\n"
                                "gid 5 address=fd00:0000:0000:0001:0ac0:ebff:feda:1cfb type=v2\n")),
            5);
  EXPECT_EQ(gid_index(port_with("gid 0 address=fe80:0000:0000:0000:0ac0:ebff:feda:1cfb type=v2")),
            std::nullopt);
  EXPECT_EQ(gid_index(port_with("gid 2 address=0000:0000:0000:0000:0000:ffff:0a00:0001 type=v1\n"
                                "gid 5 address=fd00:0000:0000:0001:0ac0:ebff:feda:1cfb type=v2\n")),
            2)
      << "IPv4 comes first, as NCCL looks for it";
  EXPECT_EQ(gid_index(port_with("gid 1 type=unreadable")), std::nullopt);
  EXPECT_EQ(gid_index(port_with("", "ib")), std::nullopt) << "nobody reads it there";
}

TEST(InterfaceTowards, TakesTheMostSpecificRouteOfTheLowestMetric) {
  const FakeRoot root(
      "route default via=eth0 metric=200\nroute default via=eth1 metric=100\n"
      "route 10.0.0.0/8 via=ib0\nroute 10.3.0.0/16 via=ib1\n");
  const auto routes = find_routes(SysFiles(root.path()));
  ASSERT_EQ(routes.size(), 4u);
  EXPECT_EQ(interface_towards(routes), "eth1");
  EXPECT_EQ(interface_towards(routes, 0xc0a80001), "eth1");
  EXPECT_EQ(interface_towards(routes, 0x0a020001), "ib0");
  EXPECT_EQ(interface_towards(routes, 0x0a030001), "ib1");
  EXPECT_EQ(interface_towards({}), "");
}

}  // namespace
}  // namespace trireme::topology
