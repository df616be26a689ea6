#include "launcher/topology/inherited.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

using Kind = Remark::Kind;

const std::string kNvidia = R"(
host n1
cpus 4
node 0 cpus=0-3
gpu 0000:00:05.0 vendor=nvidia node=0
net lo
net eth0
net eth0.7
net docker0 state=down
)";
const std::string kAmd = "host n1\ncpus 4\nnode 0 cpus=0-3\ngpu 0000:00:05.0 vendor=amd node=0\n";

std::string infiniband(const std::vector<std::string>& names, const std::string& more = "") {
  static int bus = 0;
  std::string text;
  for (const auto& name : names)
    text += "hca " + name + " at=0000:01:" + std::to_string(10 + ++bus % 80) +
            ".0 node=0\nport 1 layer=ib rate=200 " + more + "\n";
  return text;
}

std::vector<Remark> said(const std::string& table, const Settings& user) {
  const FakeRoot root(table);
  const auto machine = discover(SysFiles(root.path()));
  return remarks(user, machine, choose_hcas(machine, user.find("NCCL_IB_HCA")));
}
std::vector<Remark> said(const std::string& table, const std::string& name, const std::string& value) {
  return said(table, Settings().set(name, value));
}
// "kind: text" of the only remark; "" if there is none.
std::string only(const std::vector<Remark>& remarks) {
  EXPECT_LE(remarks.size(), 1u);
  return remarks.empty() ? "" : std::string(to_string(remarks[0].kind)) + ": " + remarks[0].text;
}

TEST(Inherited, SettingsThatNobodyReadsAreUseless) {
  for (const char* name : {"NCCL_TREE_THRESHOLD", "NCCL_LL_THRESHOLD", "NCCL_NSOCKS_PERTHREAD",
                           "NCCL_SOCKET_NTHREADS", "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT",
                           "NCCL_IB_CUDA_SUPPORT", "TORCH_NCCL_BLOCKING_WAIT"}) {
    const auto found = said(kNvidia, name, "1");
    ASSERT_EQ(found.size(), 1u) << name;
    EXPECT_EQ(found[0].kind, Kind::useless) << name;
    EXPECT_EQ(found[0].name, name);
    EXPECT_EQ(found[0].value, "1");
    EXPECT_EQ(found[0].source, "environment");
  }
}

TEST(Inherited, SettingsThatCostSpeedAreCostly) {
  for (const char* name :
       {"NCCL_MIN_NRINGS", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "CUDA_LAUNCH_BLOCKING", "NCCL_ALGO"})
    EXPECT_TRUE(only(said(kNvidia, name, "4")).starts_with("costly: ")) << name;
  for (const char* name : {"NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE"})
    EXPECT_TRUE(only(said(kNvidia, name, "0")).starts_with("costly: ")) << name;
}

TEST(Inherited, SettingsThatChangeNothingGetNoRemark) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"NCCL_P2P_DISABLE", "0"},
                                                        {"NCCL_NVLS_ENABLE", "1"},
                                                        {"NCCL_DEBUG", "INFO"},
                                                        {"OMP_NUM_THREADS", "8"},
                                                        {"NCCL_SOCKET_IFNAME", "=eth0"},
                                                        {"PATH", "/bin"}})
    EXPECT_TRUE(said(kNvidia, name, value).empty()) << name;
}

TEST(Inherited, ABlockingCommunicatorIsWrong) {
  EXPECT_TRUE(only(said(kNvidia, "NCCL_COMM_BLOCKING", "1")).starts_with("wrong: "));
}

TEST(Inherited, AMachineWithoutGpusHasNoNccl) {
  EXPECT_TRUE(said("cpus 4", "NCCL_TREE_THRESHOLD", "0").empty());
  EXPECT_TRUE(only(said("cpus 4", "OMP_NUM_THREADS", "1")).starts_with("costly: ")) << "but it has threads";
}

TEST(Inherited, ANameThatMeansOthersToo) {
  const auto table = kNvidia + infiniband({"mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11"});
  const auto found = said(table, "NCCL_IB_HCA", "mlx5_1");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(
      found[0].text,
      "'mlx5_1' also means mlx5_10, mlx5_11, since names are beginnings of names; put '=' before the list");
  EXPECT_EQ(found[0].kind, Kind::wrong);
  for (const auto& remark : said(table, "NCCL_IB_HCA", "=mlx5_1"))
    EXPECT_NE(remark.kind, Kind::wrong) << remark.text;
  EXPECT_TRUE(said(table, "NCCL_IB_HCA", "mlx5").empty()) << "a beginning that is meant as one";
}

TEST(Inherited, ANameThatDoesNotExist) {
  EXPECT_EQ(only(said(kNvidia + infiniband({"ibp1"}), "NCCL_IB_HCA", "mlx5_0")),
            "wrong: there is no HCA 'mlx5_0' on n1");
}

TEST(Inherited, ANameOfAPortThatIsDown) {
  const auto found =
      said(kNvidia + infiniband({"a"}) + infiniband({"bb"}, "state=DOWN"), "NCCL_IB_HCA", "=a,bb");
  EXPECT_EQ(only(found).substr(0, 19), "wrong: bb:1 is down");
}

TEST(Inherited, OnePortForAllRanks) {
  EXPECT_EQ(only(said(kNvidia + infiniband({"a", "bb"}), "NCCL_IB_HCA", "=a")).substr(0, 26),
            "costly: uses 1 of 2 ports;");
  EXPECT_TRUE(only(said(kNvidia + infiniband({"mlx5_0", "mlx5_1"}), "UCX_NET_DEVICES", "mlx5_0:1"))
                  .starts_with("costly: one port for all ranks"));
}

TEST(Inherited, AnInterfaceThatDoesNotExistOrIsDown) {
  for (const char* list : {"=ib0", "docker0", "ens"})
    EXPECT_EQ(only(said(kNvidia, "NCCL_SOCKET_IFNAME", list)),
              "wrong: names no interface of n1 that is up: NCCL would fail")
        << list;
}

TEST(Inherited, AnInterfaceThatMeansOthersToo) {
  EXPECT_TRUE(only(said(kNvidia, "NCCL_SOCKET_IFNAME", "eth0"))
                  .starts_with("wrong: means eth0, eth0.7, since names"));
}

TEST(Inherited, TheGidIndexIsReadOnEthernetOnly) {
  EXPECT_EQ(only(said(kNvidia + infiniband({"a"}), "NCCL_IB_GID_INDEX", "3")),
            "useless: is read for RoCE only; these ports are InfiniBand");
}

TEST(Inherited, TheGidIndexMustBeAnAddressThatLeadsToOtherHosts) {
  const auto table =
      kNvidia + "hca a at=0000:01:00.0 node=0\nport 1 layer=eth rate=100\nipv4 10.0.0.1 net=eth0\n";
  const auto index = [&](const std::string& value) { return only(said(table, "NCCL_IB_GID_INDEX", value)); };
  EXPECT_EQ(index("3"), "");
  EXPECT_EQ(index("-1"), "");
  EXPECT_EQ(index("1"), "wrong: address 1 of a:1 reaches no other subnet; unset it, or take 3");
  EXPECT_EQ(index("2"),
            "wrong: address 2 of a:1 is of RoCE v1, which no router passes on; unset it, or take 3");
  EXPECT_EQ(index("7"), "wrong: a:1 has no address 7; unset it, or take 3");
}

TEST(Inherited, RdmaThatIsTurnedOff) {
  EXPECT_TRUE(
      only(said(kNvidia + infiniband({"a"}), "NCCL_IB_DISABLE", "1")).starts_with("costly: a:1 can be used"));
  EXPECT_TRUE(said(kNvidia, "NCCL_IB_DISABLE", "1").empty()) << "there is none";
}

TEST(Inherited, AmdsVisibleDevicesCountEachOther) {
  const auto both = Settings().set("ROCR_VISIBLE_DEVICES", "1").set("HIP_VISIBLE_DEVICES", "1");
  EXPECT_EQ(only(said(kAmd, both)),
            "wrong: counts the devices that ROCR_VISIBLE_DEVICES=1 has left, not all; set one of them");
  const auto two = Settings().set("CUDA_VISIBLE_DEVICES", "0").set("HIP_VISIBLE_DEVICES", "1");
  EXPECT_EQ(only(said(kAmd, two)), "wrong: HIP reads HIP_VISIBLE_DEVICES=1 instead; set one of them");
  EXPECT_EQ(only(said(kAmd, "HIP_VISIBLE_DEVICES", "0")), "");
  EXPECT_TRUE(said(kNvidia, both).empty());
}

TEST(Inherited, EachVendorsSettingsAreOfItsGpus) {
  EXPECT_TRUE(only(said(kAmd, "RCCL_MSCCL_ENABLE", "1")).starts_with("useless: "));
  EXPECT_TRUE(said(kNvidia, "RCCL_MSCCL_ENABLE", "1").empty());
  EXPECT_TRUE(only(said(kAmd, "HSA_OVERRIDE_GFX_VERSION", "9.4.2")).starts_with("wrong: "));
  EXPECT_TRUE(said(kAmd, "CUDA_LAUNCH_BLOCKING", "1").empty());
}

TEST(Inherited, TheWrongOnesComeFirst) {
  const auto user = Settings()
                        .set("NCCL_ASYNC_ERROR_HANDLING", "1")
                        .set("NCCL_MIN_NRINGS", "8", "/etc/nccl.conf")
                        .set("NCCL_SOCKET_IFNAME", "=nothing");
  const auto found = said(kNvidia, user);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(found[1].name, "NCCL_MIN_NRINGS");
  EXPECT_EQ(found[1].source, "/etc/nccl.conf");
  EXPECT_EQ(found[2].name, "NCCL_ASYNC_ERROR_HANDLING");
}

}  // namespace
}  // namespace trireme::topology
