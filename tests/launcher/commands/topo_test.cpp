// `trireme topo` on this machine and on recorded ones, and what ranks find in their environment.
#include <nlohmann/json.hpp>

#include "launcher/topology/cpu_list.h"
#include "launcher/topology/machine.h"
#include "tests/launcher/commands/launch.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::commands {
namespace {

using nlohmann::json;

// Two GPUs, each with an HCA beside it, a third HCA for storage, on a machine that grants half its CPUs.
const std::string kMachine = R"(
host recorded
cpus 8
node 0 cpus=0-7
allowed cpus=0-3 mems=0
gpu 0000:13:00.0 vendor=nvidia node=0 under=pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0
gpu 0000:23:00.0 vendor=nvidia node=0 under=pci0000:20/0000:20:01.0/0000:21:00.0/0000:22:00.0
hca mlx5_0 at=0000:14:00.0 node=0 under=pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0
port 1 layer=ib rate=400
hca mlx5_1 at=0000:24:00.0 node=0 under=pci0000:20/0000:20:01.0/0000:21:00.0/0000:22:01.0
port 1 layer=ib rate=400
hca mlx5_2 at=0000:41:00.0 node=0 under=pci0000:40/0000:40:01.0
port 1 layer=ib rate=400
net lo
net eth0
route default via=eth0
)";

class Topo : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    for (const char* name :
         {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_TREE_THRESHOLD", "CUDA_VISIBLE_DEVICES"})
      ::unsetenv(name);
  }
  Result topo(std::vector<std::string> arguments,
              const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    arguments.insert(arguments.begin(), "topo");
    start(std::move(arguments), false, environment);
    return finish();
  }
  Result topo_of_recorded(std::vector<std::string> more,
                          const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    const topology::FakeRoot root(kMachine);
    more.insert(more.end(), {"--sysfs-root", root.path()});
    return topo(std::move(more), environment);
  }
};

TEST_F(Topo, ShowsThisMachine) {
  const auto result = topo({});
  EXPECT_EQ(result.status, 0) << result.err;
  const auto machine = topology::discover(topology::SysFiles());
  EXPECT_NE(result.out.find(machine.host + ": "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("rank  gpu"), std::string::npos) << result.out;
}

TEST_F(Topo, ShowsATreeAMatrixAndThePlan) {
  const auto result = topo_of_recorded({});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* line :
       {"recorded: 4 CPUs in 4 cores to use, 1 memory node, 2 GPUs, 3 HCAs\n",
        "memory node 0: CPUs 0-7, for us 0-3\n  pci0000:10\n    0000:11:00.0\n      GPU 0  0000:13:00.0  "
        "NVIDIA "
        "Test\n      mlx5_0  0000:14:00.0\n        port 1: InfiniBand 400 Gb/s, ACTIVE\n",
        "        GPU 0  GPU 1  mlx5_0  mlx5_1  mlx5_2\nGPU 0   -      NODE   PIX     NODE    NODE\n",
        "rank  gpu               port      distance  cpus  memory node  threads\n"
        "0     0 (0000:13:00.0)  mlx5_0:1  PIX       0-1   0            2\n"
        "1     1 (0000:23:00.0)  mlx5_1:1  PIX       2-3   0            2\n",
        "  mlx5_2:1  shares no PCI switch with a GPU", "  NCCL_IB_HCA==mlx5_0:1,mlx5_1:1\n",
        "  NCCL_SOCKET_IFNAME==lo\n"})
    EXPECT_NE(result.out.find(line), std::string::npos) << line << "\nin\n" << result.out;
}

TEST_F(Topo, ShowsWhatSeveralHostsNeed) {
  const auto out = topo_of_recorded({"--hosts", "2"}).out;
  EXPECT_NE(out.find("  NCCL_SOCKET_IFNAME==eth0\n"), std::string::npos) << out;
  EXPECT_NE(out.find("  UCX_NET_DEVICES=the rank's port\n"), std::string::npos) << out;
}

TEST_F(Topo, ExplainsWhatIsSetAndLeavesIt) {
  const auto out = topo_of_recorded({}, {{"NCCL_IB_HCA", "mlx5_9"}, {"NCCL_TREE_THRESHOLD", "0"}}).out;
  EXPECT_EQ(out.find("NCCL_IB_HCA=="), std::string::npos) << out;
  EXPECT_NE(
      out.find("  NCCL_IB_HCA=mlx5_9 (environment)\n      wrong: there is no HCA 'mlx5_9' on recorded\n"),
      std::string::npos)
      << out;
  EXPECT_NE(out.find("  NCCL_TREE_THRESHOLD=0 (environment)\n      useless: "), std::string::npos) << out;
}

TEST_F(Topo, ObeysVisibleDevices) {
  const auto out = topo_of_recorded({}, {{"CUDA_VISIBLE_DEVICES", "1"}}).out;
  EXPECT_NE(out.find("0     0 (0000:23:00.0)  mlx5_1:1  PIX       0-3   0            4\n"), std::string::npos)
      << out;
}

TEST_F(Topo, SaysTheSameToPrograms) {
  const auto result = topo_of_recorded({"--json"});
  const auto all = json::parse(result.out);
  EXPECT_EQ(all["machine"]["host"], "recorded");
  EXPECT_EQ(all["machine"]["gpus"][1]["bus_id"], "0000:23:00.0");
  EXPECT_EQ(all["machine"]["hcas"][0]["ports"][0]["gbits"], 400);
  EXPECT_EQ(all["distances"][0], (json{{"mlx5_0", "PIX"}, {"mlx5_1", "NODE"}, {"mlx5_2", "NODE"}}));
  EXPECT_EQ(all["plan"]["ranks"][1]["cpus"], json::array({2, 3}));
  EXPECT_EQ(all["plan"]["ranks"][1]["port"], "mlx5_1:1");
  EXPECT_EQ(all["plan"]["ports_used"], json::array({"mlx5_0:1", "mlx5_1:1"}));
  EXPECT_EQ(all["plan"]["ports_left_out"][0]["port"], "mlx5_2:1");
  EXPECT_EQ(all["plan"]["variables"][0]["value"], "=mlx5_0:1,mlx5_1:1");
}

TEST_F(Topo, SavesAMachineThatCanBeReadAgain) {
  const auto saved = (folder_ / "machine.txt").string();
  const auto before = topo_of_recorded({"--save", saved});
  EXPECT_EQ(before.status, 0) << before.err;
  const auto after = topo({"--sysfs-root", saved});
  EXPECT_EQ(after.out, before.out);
  EXPECT_LT(std::filesystem::file_size(saved), 10'000u);
}

TEST_F(Topo, RefusesWhatItCannotRead) {
  std::filesystem::create_directories(folder_ / "empty");
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--sysfs-root", "/nowhere"}, "cannot read /nowhere"},
           {{"--sysfs-root", folder_ / "empty"}, "tells of no CPU"},
           {{"--sysfs-root", configuration()}, "neither a folder"},
           {{"--hosts", "0"}, "at least one host"},
           {{"-n", "0"}, "at least one rank"},
           {{"mlx5_0"}, "has options only"}}) {
    const auto result = topo(arguments);
    EXPECT_NE(result.status, 0) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Topo, RanksGetWhatIsPlanned) {
  const auto result = run(build_folder() + "/tests/bin/binding_rank", 2);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(log(0), "checked\n");
  EXPECT_EQ(log(1), "checked\n");
}

TEST_F(Topo, RanksNoticeThatTheyAreBoundElsewhere) {
  const auto cpus = topology::allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const auto first = std::to_string(cpus[0]);
  const auto result =
      run(script("exec taskset -c " + first + " " + build_folder() + "/tests/bin/binding_rank"), 2);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(log(1).starts_with("this rank may run on CPUs " + first + ", the plan says ")) << log(1);
}

}  // namespace
}  // namespace trireme::commands
