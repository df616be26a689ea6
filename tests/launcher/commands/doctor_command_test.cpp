// `trireme doctor` on this machine and on recorded ones. Several hosts: tests/launcher/hosts/doctor_test.cpp.
#include <nlohmann/json.hpp>

#include "tests/launcher/commands/launch.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::commands {
namespace {

using nlohmann::json;

class Doctor : public LaunchTest {
 protected:
  Result doctor(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "doctor");
    start(std::move(arguments));
    return finish();
  }
  static std::string machine(const std::string& third_port) {
    std::string table = "host recorded\ncpus 8\nnode 0 cpus=0-7\nallowed cpus=0-7 mems=0\nnet lo\n";
    for (int i = 1; i <= 3; ++i) {
      const auto n = std::to_string(i);
      const auto switches = "pci0000:" + n + "0/0000:" + n + "0:01.0/0000:" + n + "1:00.0/0000:" + n + "2:0";
      table += "gpu 0000:" + n + "3:00.0 vendor=nvidia node=0 under=" + switches + "0.0\nhca mlx5_" + n +
               " at=0000:" + n + "4:00.0 node=0 under=" + switches + "1.0\nport 1 layer=ib rate=400" +
               (i == 3 ? third_port : "") + "\n";
    }
    return table;
  }
};

TEST_F(Doctor, NamesADeadPortOfARecordedMachine) {
  const topology::FakeRoot sound(machine("")), dead(machine(" state=DOWN"));
  const auto good = doctor({"--sysfs-root", sound.path()});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(good.out, "1 host, nothing wrong\n");
  const auto bad = doctor({"--sysfs-root", dead.path()});
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(
      bad.out.find("error: recorded: mlx5_3 port 1 is down (state DOWN, link Polling)\n  why it matters: "),
      std::string::npos)
      << bad.out;
  const auto report = json::parse(doctor({"--sysfs-root", dead.path(), "--json"}).out);
  EXPECT_EQ(report.at("hosts"), json::array({"recorded"}));
  ASSERT_EQ(report.at("findings").size(), 1U);
  EXPECT_EQ(report.at("findings")[0].at("check"), "ports");
  EXPECT_EQ(report.at("findings")[0].at("severity"), "error");
}

TEST_F(Doctor, ComparesRecordedMachines) {
  const topology::FakeRoot sound(machine("")), dead(machine(" state=DOWN"));
  const auto result = doctor({"--sysfs-root", sound.path(), "--sysfs-root", dead.path()});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("NCCL pairs the ports of hosts"), std::string::npos) << result.out;
}

TEST_F(Doctor, TakesWhatTopoSaves) {
  topology::FakeRoot root(machine(""));
  const auto counter =
      std::filesystem::path(root.path()) / "sys/class/infiniband/mlx5_2/ports/1/counters/symbol_error";
  std::filesystem::create_directories(counter.parent_path());
  std::ofstream(counter) << "4711\n";
  const std::string saved = folder_ / "machine.txt";
  start({"topo", "--sysfs-root", root.path(), "--save", saved});
  ASSERT_EQ(finish().status, 0);
  const auto result = doctor({"--sysfs-root", saved});
  EXPECT_EQ(result.status, 0) << "a warning";
  EXPECT_NE(result.out.find("mlx5_2 port 1 counts 4711 bits that the line got wrong"), std::string::npos)
      << result.out;
}

TEST_F(Doctor, LooksAtThisMachineAndLeavesNothing) {
  const auto result =
      doctor({configuration(), "run.output_dir=" + (folder_ / "runs/deeper").string(), "--json"});
  const auto report = json::parse(result.out);
  EXPECT_EQ(report.at("hosts").size(), 1U);
  for (const auto& finding : report.at("findings"))  // of what this test knows to be sound
    for (const char* check : {"versions", "files", "checkpoints", "clocks", "network", "collective"})
      EXPECT_NE(finding.at("check"), check) << finding;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << "the folder of checkpoints is the run's to make";
  const auto unreadable = doctor({configuration(), "model.path=/nowhere/model"});
  EXPECT_EQ(unreadable.status, 1);
  EXPECT_NE(unreadable.out.find("/nowhere/model cannot be read: No such file or directory"),
            std::string::npos)
      << unreadable.out;
}

TEST_F(Doctor, RefusesWhatItCannotRead) {
  EXPECT_EQ(doctor({"absent.toml"}).status, 2);
  EXPECT_NE(doctor({"--sysfs-root", "absent"}).err.find("cannot read absent"), std::string::npos);
  EXPECT_EQ(doctor({"--hosts", "a", "--hostfile", "b"}).status, 2);
}

}  // namespace
}  // namespace trireme::commands
