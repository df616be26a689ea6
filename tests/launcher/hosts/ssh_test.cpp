// Runs over ssh on three hosts, and what they do when something breaks. The ranks are the real trainer.
#include <sys/ptrace.h>

#include "tests/launcher/hosts/testbed.h"

namespace trireme::testbed {
namespace {

constexpr int kSteps = 40;
constexpr auto kNotice = std::chrono::seconds(5);

class Ssh : public TestbedTest {
 protected:
  static void SetUpTestSuite() { bring_up("up", 3, {"ip", "nsenter", "sshd", "ssh", "mpirun"}); }
  void SetUp() override {
    TestbedTest::SetUp();
    if (!IsSkipped()) write("tiny.toml", tiny_configuration(kSteps));
  }

  std::string command(const std::string& options) const {
    return "OMP_NUM_THREADS=1 " + program() + " run tiny.toml --launch-agent \"ssh -F " +
           (folder() / "ssh_config").string() + "\" --run-dir " + run_dir_.string() + " " + options;
  }
  Result run(const std::string& options) {
    start("h0", command(options));
    return finish();
  }
  /// Holds a process as a debugger does: it is not dead, it was stopped by no signal, and it does nothing.
  /// Until it is killed.
  void hold(pid_t pid) {
    ASSERT_GT(pid, 0);
    holder_ = std::thread([pid] {
      ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr);
      ::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr);
      int status = 0;
      while (::waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
      }
    });
  }
  void TearDown() override {
    TestbedTest::TearDown();
    if (holder_.joinable()) holder_.join();
  }
  /// The run ended well, and with the weights of a run to which nothing happened.
  void expect_same_end(const Result& result) {
    EXPECT_EQ(result.status, 0) << result.text;
    EXPECT_TRUE(nothing_is_left());
    static std::string expected;
    if (expected.empty()) {
      const auto mine = std::exchange(run_dir_, folder() / "work" / "undisturbed");
      const auto calm = run("--hosts h0:2,h1:2");
      EXPECT_EQ(calm.status, 0) << calm.text;
      expected = weights(run_dir_, kSteps);
      run_dir_ = mine;
    }
    ASSERT_FALSE(expected.empty());
    EXPECT_TRUE(weights(run_dir_, kSteps) == expected) << "the weights differ from an undisturbed run's";
  }
  /// Waits until `text` is told, and for how long after `since`.
  void expect_soon(const std::string& text, Clock::time_point since, std::chrono::seconds within = kNotice) {
    EXPECT_TRUE(wait_for(text)) << output();
    const auto took = Clock::now() - since;
    std::printf("seen after %.1f s: %s\n", std::chrono::duration<double>(took).count(), text.c_str());
    EXPECT_LE(took, within + std::chrono::seconds(1)) << "it took too long to see: " << text;
  }

  std::thread holder_;
};

TEST_F(Ssh, RunsOnTwoHostsAndTellsRanksTheirPlaces) {
  const auto script =
      write("places.sh",
            "#!/bin/sh\necho place $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK "
            "$(hostname) $MASTER_ADDR $TRIREME_TEST_WORD >&2\n");
  fs::permissions(script, fs::perms::owner_all);
  start("h0", "TRIREME_TEST_WORD=hello " + command("--hosts h0:1,h1:2 --rank-program " + script));
  const auto result = finish();
  EXPECT_EQ(result.status, 0) << result.text;
  const auto address = shell("grep h0 " + (folder() / "hosts").string() + " | cut -d' ' -f1").text;
  const auto master = address.substr(0, address.find('\n'));
  for (const auto& place : {"place 0/3 0/1 0 h0 ", "place 1/3 0/2 1 h1 ", "place 2/3 1/2 1 h1 "})
    EXPECT_NE(result.text.find(place + master + " hello"), std::string::npos) << result.text;
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, NeedsNoSharedFolder) {
  // /tmp is each host's own.
  const auto script = write("folder.sh", "#!/bin/sh\ngrep -c seed /tmp/own/config.toml >&2\n");
  fs::permissions(script, fs::perms::owner_all);
  start("h0", "OMP_NUM_THREADS=1 " + program() + " run tiny.toml --launch-agent \"ssh -F " +
                  (folder() / "ssh_config").string() +
                  "\" --run-dir /tmp/own --hosts h0:1,h1:1 --rank-program " + script);
  const auto result = finish();
  EXPECT_EQ(result.status, 0) << result.text;
  EXPECT_NE(result.text.find("[rank 1] 1"), std::string::npos) << result.text;
  EXPECT_TRUE(fs::exists(folder() / "tmp-h1/own/logs/rank-1.log"));
  EXPECT_FALSE(fs::exists(folder() / "tmp-h0/own/logs/rank-1.log"));
}

TEST_F(Ssh, NamesAHostThatDoesNotAnswer) {
  const auto result = run("--hosts h0:1,nowhere:1");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.text.find("no answer from"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("nowhere"), std::string::npos) << result.text;
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Ssh, ShowsThePlanOfEveryHost) {
  write("hosts.txt", "h0 slots=2\nh2 slots=1  # the small one\n");
  const auto result = run("--hostfile hosts.txt --dry-run");
  EXPECT_EQ(result.status, 0) << result.text;
  EXPECT_NE(result.text.find("2     h2    "), std::string::npos) << result.text;
  EXPECT_FALSE(fs::exists(run_dir_));
}

TEST_F(Ssh, ARankThatIsKilledCostsSomeSteps) {
  start("h0", command("--hosts h0:2,h1:2"));
  ASSERT_TRUE(has_checkpoint(3)) << output();
  const auto since = Clock::now();
  ::kill(rank_process(2), SIGKILL);
  expect_soon("rank 2 on h1 has failed", since);
  const auto result = finish();
  EXPECT_NE(result.text.find("rank 2 of 4 on h1 was killed by SIGKILL"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("restart 1 of 3"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("resuming from"), std::string::npos) << result.text;
  expect_same_end(result);
}

TEST_F(Ssh, ARankThatIsStoppedIsNamedAndEnded) {
  start("h0", command("--hosts h0:2,h1:2"));
  ASSERT_TRUE(has_checkpoint(3)) << output();
  const auto since = Clock::now();
  ::kill(rank_process(3), SIGSTOP);
  expect_soon("rank 3 on h1 was stopped by a signal", since);
  EXPECT_TRUE(wait_for("rank 3 of 4 on h1 was stopped by a signal (SIGSTOP), and nobody continued it"))
      << output();
  expect_same_end(finish());
}

TEST_F(Ssh, ARankThatHangsIsFoundByItsCollectives) {
  start("h0", command("--hosts h0:2,h1:2 --stall-timeout 4"));
  ASSERT_TRUE(has_checkpoint(3)) << output();
  hold(rank_process(1));
  EXPECT_TRUE(wait_for("rank 1 of 4 on h0 never entered")) << output();
  EXPECT_NE(output().find("wait; it is in stage"), std::string::npos) << output();
  expect_same_end(finish());
}

TEST_F(Ssh, ACutCableIsALostHostAndASpareTakesItsPlace) {
  start("h0", command("--hosts h0:2,h1:2,h2:2 --nnodes 2"));
  ASSERT_TRUE(has_checkpoint(3)) << output();
  const auto since = Clock::now();
  bed("cut", "h1");
  expect_soon("nothing is heard from rank", since);
  EXPECT_TRUE(wait_for("was lost with its host (ranks 2, 3): nothing is heard from it")) << output();
  EXPECT_TRUE(wait_for("h1 is left out from here on; a spare host takes its place")) << output();
  const auto result = finish();
  bed("join", "h1");
  expect_same_end(result);
}

// A frozen process is as deaf as one that waits for a dead disk: SIGKILL comes when it is thawed.
TEST_F(Ssh, AProcessThatCannotBeKilledCostsItsHost) {
  const fs::path cgroup = "/sys/fs/cgroup/freezer/" + folder().filename().string();
  std::error_code error;
  if (!fs::create_directory(cgroup, error)) GTEST_SKIP() << "no freezer of processes here (cgroup v1)";
  const auto put = [&](const char* file, const std::string& text) { std::ofstream(cgroup / file) << text; };
  start("h0", command("--hosts h0:2,h1:2,h2:2 --nnodes 2 --stall-timeout 4"));
  ASSERT_TRUE(has_checkpoint(3)) << output();
  put("cgroup.procs", std::to_string(rank_process(2)));
  put("freezer.state", "FROZEN");
  EXPECT_TRUE(wait_for("rank 2 could not be ended: on h1, process ")) << output();
  EXPECT_TRUE(wait_for("h1 is left out from here on; a spare host takes its place")) << output();
  const auto result = finish();
  put("freezer.state", "THAWED");
  EXPECT_TRUE(wait_until([&] { return fs::remove(cgroup, error); }));
  EXPECT_NE(result.text.find("does not end on SIGKILL (state "), std::string::npos) << result.text;
  expect_same_end(result);
}

TEST_F(Ssh, AKilledSupervisorLeavesNothingAndTheRunGoesOn) {
  start("h0", command("--hosts h0:2,h1:2"));
  ASSERT_TRUE(has_checkpoint(3)) << output();
  const auto supervisors = shell("pgrep -f '^" + program() + " run .*" + run_dir_.string() + "'").text;
  ASSERT_FALSE(supervisors.empty());
  const auto since = Clock::now();
  ::kill(std::stoi(supervisors), SIGKILL);
  EXPECT_TRUE(nothing_is_left());
  const auto took = Clock::now() - since;
  std::printf("nothing is left after %.1f s\n", std::chrono::duration<double>(took).count());
  EXPECT_LE(took, kNotice + std::chrono::seconds(1));
  finish();
  expect_same_end(run("--hosts h0:2,h1:2"));
}

TEST_F(Ssh, SigtermWritesACheckpointOnAllHosts) {
  start("h0", "exec env " + command("--hosts h0:2,h1:2"));
  ASSERT_TRUE(has_checkpoint(2)) << output();
  const auto supervisors = shell("pgrep -f '^" + program() + " run .*" + run_dir_.string() + "'").text;
  ::kill(std::stoi(supervisors), SIGTERM);
  EXPECT_EQ(finish().status, 75) << output();
  EXPECT_TRUE(nothing_is_left());
  expect_same_end(run("--hosts h0:2,h1:2"));
}

// The last one: the host does not come back.
TEST_F(Ssh, ZAHostWithoutPowerIsReplaced) {
  start("h0", command("--hosts h0:2,h2:2,h1:2 --nnodes 2"));
  ASSERT_TRUE(has_checkpoint(3)) << output();
  const auto since = Clock::now();
  bed("off", "h2");
  expect_soon("on h2 is gone", since);
  const auto result = finish();
  EXPECT_NE(result.text.find("was lost with its host (ranks 2, 3)"), std::string::npos) << result.text;
  expect_same_end(result);
}

}  // namespace
}  // namespace trireme::testbed
