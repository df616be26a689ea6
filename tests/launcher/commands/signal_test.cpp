// How a run ends when somebody wants it to: Ctrl-C, SIGTERM, and launchers, guards and mpirun that are
// killed.
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

using Signals = LaunchTest;

// Ranks that write a checkpoint when asked to stop, as trireme-trainer does.
constexpr const char* kObedient =
    "trap 'echo checkpoint; exit 75' TERM\n"
    "touch ready-$TRIREME_RANK\n"
    "while :; do sleep 0.05; done\n";
constexpr const char* kStubborn =
    "trap 'touch asked' TERM\n"
    "touch ready-$TRIREME_RANK\n"
    "while :; do sleep 0.05; done\n";

TEST_F(Signals, CtrlCLetsTheRanksWriteACheckpoint) {
  start_run(script(kObedient), 2);
  ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
  send(SIGINT);
  const auto result = finish();
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.out, "checkpoint\n");
  EXPECT_NE(log(1).find("checkpoint"), std::string::npos);
  EXPECT_NE(result.err.find("Ctrl-C again to stop at once"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--run-dir run"), std::string::npos) << result.err;
}

TEST_F(Signals, ASecondCtrlCStopsAtOnce) {
  start_run(script(kStubborn), 2);
  ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
  send(SIGINT);
  ASSERT_TRUE(wait_for_file("asked"));
  send(SIGINT);
  const auto result = finish();
  EXPECT_EQ(result.status, 130);
  EXPECT_NE(result.err.find("stopped at once"), std::string::npos) << result.err;
}

TEST_F(Signals, SigtermAndSigusr1StopAfterACheckpoint) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    start_run(script(kObedient), 2);
    ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
    send(signal);
    EXPECT_EQ(finish().status, 75) << signal;
    for (const char* name : {"ready-0", "ready-1"}) std::filesystem::remove(folder_ / name);
  }
}

TEST_F(Signals, ARankThatFailsWhileStoppingIsReported) {
  start_run(
      script("trap '[ $TRIREME_RANK = 1 ] && kill -SEGV $$; sleep 1000' TERM\ntouch ready-$TRIREME_RANK\n"
             "while :; do sleep 0.05; done\n"),
      2);
  ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
  send(SIGTERM);
  const auto result = finish();
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(result.err.find("rank 1 of 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("was killed by SIGSEGV"), std::string::npos) << result.err;
}

TEST_F(Signals, ARankThatKnowsNoCheckpointsJustEnds) {
  start_run(script("touch ready-$TRIREME_RANK; sleep 1000"), 2);
  ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
  send(SIGTERM);
  const auto result = finish();
  EXPECT_EQ(result.status, 130);
  EXPECT_NE(result.err.find("without a checkpoint"), std::string::npos) << result.err;
}

TEST_F(Signals, NothingIsLeftWhenTheLauncherIsKilled) {
  start_run(script(kStubborn), 2);
  ASSERT_TRUE(wait_for_file("ready-0") && wait_for_file("ready-1"));
  send(SIGKILL);
  EXPECT_EQ(finish().status, 128 + SIGKILL);
  EXPECT_EQ(left_running(), std::vector<std::string>{});
}

TEST_F(Signals, ALostGuardEndsTheRun) {
  start_run(script("[ $TRIREME_RANK = 1 ] && kill -KILL $PPID\nsleep 1000"), 2);
  const auto result = finish();
  EXPECT_EQ(result.status, 4);
  EXPECT_NE(result.err.find("rank 1 of 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("was lost"), std::string::npos) << result.err;
}

TEST_F(Signals, AKilledMpirunEndsTheRun) {
  start_run(script("[ $TRIREME_RANK = 1 ] && kill -KILL $(ps -o ppid= -p $PPID)\nsleep 1000"), 2);
  const auto result = finish();
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("mpirun ended while ranks were running"), std::string::npos) << result.err;
}

TEST_F(Signals, AStoppedRunGoesOn) {
  start_run(script("touch ready-$TRIREME_RANK; sleep 0.3; echo went on"), 1);
  ASSERT_TRUE(wait_for_file("ready-0"));
  send(SIGTSTP);
  int status = 0;
  ASSERT_TRUE(wait_until([&] { return ::waitpid(launcher_, &status, WNOHANG | WUNTRACED) == launcher_; }));
  EXPECT_TRUE(WIFSTOPPED(status));
  send(SIGCONT);
  const auto result = finish();
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "went on\n");
}

}  // namespace
}  // namespace trireme::commands
