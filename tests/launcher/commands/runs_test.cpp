// `trireme list`, `status`, `logs` and `stop` on real runs, and runs that are started again.
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

class Runs : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    ::setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
  }
  void TearDown() override {
    LaunchTest::TearDown();
    ::unsetenv("XDG_STATE_HOME");
  }
  /// `trireme ARGUMENTS` beside a run that goes on.
  Result ask(const std::vector<std::string>& arguments) {
    const pid_t run = std::exchange(launcher_, -1);
    std::filesystem::create_directories(folder_ / "asked");
    const auto folder = std::exchange(folder_, folder_ / "asked");
    start(arguments);
    const auto result = finish();
    folder_ = folder;
    launcher_ = run;
    return result;
  }
};

constexpr const char* kObedient =
    "trap 'echo checkpoint; exit 75' TERM\n"
    "echo began\n"
    "touch ready-$TRIREME_RANK\n"
    "while :; do sleep 0.05; done\n";

TEST_F(Runs, AreListedToldOfAndStopped) {
  start_run(script(kObedient), 2);
  ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
  const auto list = ask({"list"});
  EXPECT_NE(list.out.find("run  "), std::string::npos) << list.out << list.err;
  EXPECT_NE(list.out.find("running"), std::string::npos) << list.out;
  EXPECT_NE(ask({"status", "run"}).out.find("ranks     2"), std::string::npos);
  EXPECT_EQ(ask({"logs", "run", "--rank", "1"}).out, "began\n");
  EXPECT_EQ(ask({"stop", "run"}).status, 0);
  EXPECT_EQ(finish().status, 75);
  EXPECT_NE(ask({"list"}).out.find("stopped"), std::string::npos);
  EXPECT_EQ(ask({"stop", "run"}).status, 2);
}

TEST_F(Runs, StopNowDoesNotWaitForACheckpoint) {
  start_run(script("trap '' TERM\ntouch ready-$TRIREME_RANK\nwhile :; do sleep 0.05; done\n"), 1);
  ASSERT_TRUE(wait_for_file("ready-0"));
  EXPECT_EQ(ask({"stop", "run", "--now"}).status, 0);
  EXPECT_EQ(finish().status, 130);
}

TEST_F(Runs, ThatFailedSayWhy) {
  EXPECT_EQ(run(script("exit 7"), 1).status, 7);
  const auto status = ask({"status", run_dir()});
  EXPECT_NE(status.out.find("failed (7)"), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("ended with status 7"), std::string::npos) << status.out;
}

TEST_F(Runs, WhoseLauncherWasKilledAreCalledSo) {
  start_run(script("touch ready-$TRIREME_RANK; sleep 1000"), 1);
  ASSERT_TRUE(wait_for_file("ready-0"));
  send(SIGKILL);
  finish();
  EXPECT_NE(ask({"list"}).out.find("killed"), std::string::npos);
  EXPECT_NE(ask({"stop", "run"}).err.find("its launcher was killed"), std::string::npos);
}

TEST_F(Runs, ThatAreUnknownAreNotFound) {
  const auto result = ask({"status", "nothing"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("there is no run 'nothing'"), std::string::npos) << result.err;
}

TEST_F(Runs, LogsAreFollowedToTheEnd) {
  start_run(script("touch ready-$TRIREME_RANK; sleep 1; echo last words"), 1);
  ASSERT_TRUE(wait_for_file("ready-0"));
  EXPECT_EQ(ask({"logs", "run", "--follow"}).out, "last words\n");
  EXPECT_EQ(finish().status, 0);
}

TEST_F(Runs, AreStartedAgainAfterAFailure) {
  const auto result = run(script("echo attempt $TRIREME_ATTEMPT restart $TORCHELASTIC_RESTART_COUNT\n"
                                 "[ $TRIREME_ATTEMPT = 0 ] && [ $TRIREME_RANK = 1 ] && kill -KILL $$\n"
                                 "[ $TRIREME_ATTEMPT = 1 ] && exit 0\nsleep 1000"),
                          2, {"--max-restarts", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("rank 1 of 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("restart 1 of 2"), std::string::npos) << result.err;
  EXPECT_NE(log(1).find("attempt 1 restart 1"), std::string::npos) << log(1);
}

TEST_F(Runs, EndWhenTheSameRankFailsAtTheSameStepTwice) {
  const auto result = run(script("[ $TRIREME_RANK = 1 ] && exit 9\nsleep 1000"), 2, {"--max-restarts", "5"});
  EXPECT_EQ(result.status, 9);
  EXPECT_NE(result.err.find("rank 1 failed at start step 0 twice"), std::string::npos) << result.err;
}

TEST_F(Runs, CanBeStoppedBeforeTheyStartAgain) {
  start_run(script("exit 9"), 1, {"--max-restarts", "5"});
  ASSERT_TRUE(wait_for("err", "starting again"));
  send(SIGTERM);
  EXPECT_EQ(finish().status, 75);
}

TEST_F(Runs, ARankThatHangsIsFoundByTheStallTimeout) {
  ::setenv("TEST_MODE", "hang", 1);
  const auto result = run(page_rank(), 2, {"--stall-timeout", "2"});
  ::unsetenv("TEST_MODE");
  EXPECT_EQ(result.status, 4);
  EXPECT_NE(result.err.find("rank 1 of 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(
                "never entered all_reduce #3 of 'world' (f32, 7 elements), in which rank 0 waits; it is in "
                "stage update_actor"),
            std::string::npos)
      << result.err;
}

TEST_F(Runs, AProcessThatSigkillDoesNotEndIsNamed) {
  const std::string freezer = "/sys/fs/cgroup/freezer/trireme-test-" + std::to_string(::getpid());
  std::error_code error;
  if (!std::filesystem::create_directory(freezer, error))
    GTEST_SKIP() << "this machine has no freezer cgroup, which is how a process is made unkillable";
  start_run(script("echo $$ > pid-$TRIREME_RANK; touch ready-$TRIREME_RANK; while :; do sleep 0.05; done"),
            2);
  ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
  std::ofstream(freezer + "/cgroup.procs") << read_all(folder_ / "pid-1");
  std::ofstream(freezer + "/freezer.state") << "FROZEN";
  ::kill(std::stoi(read_all(folder_ / "pid-0")), SIGKILL);
  const auto result = finish();
  std::ofstream(freezer + "/freezer.state") << "THAWED";
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_NE(result.err.find("rank 0 of 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("rank 1 could not be ended"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("does not end on SIGKILL (state D"), std::string::npos) << result.err;
  wait_until([&] { return left_running().empty(); });
  std::filesystem::remove(freezer, error);
}

}  // namespace
}  // namespace trireme::commands
