// `trireme run` with real guards under a real mpirun; the ranks are small scripts.
#include <atomic>

#include "launcher/process/connection.h"
#include "runtime/plan/launch_plan.h"
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

using RunCommand = LaunchTest;

// The paragraph about the failure, from "trireme: rank" to the end.
std::string paragraph(const std::string& err) {
  const auto at = err.find("trireme: rank ");
  return at == std::string::npos ? "" : err.substr(at);
}

TEST_F(RunCommand, ShowsRankZerosOutputAndEveryRanksErrors) {
  const auto result = run(script("echo out of $TRIREME_RANK; echo err of $TRIREME_RANK >&2"), 2);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "out of 0\n");
  EXPECT_NE(result.err.find("[rank 0] err of 0\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("[rank 1] err of 1\n"), std::string::npos) << result.err;
  EXPECT_NE(log(1).find("out of 1\n"), std::string::npos);
  EXPECT_NE(log(1).find("err of 1\n"), std::string::npos);
}

TEST_F(RunCommand, LeavesAFolderThatSaysWhatRan) {
  ASSERT_EQ(run(script("exit 0"), 2, {"run.seed=77"}).status, 0);
  const auto plan = plan::load_launch_plan(plan::launch_plan_path(run_dir()));
  EXPECT_EQ(plan.ranks.size(), 2u);
  EXPECT_EQ(plan.attempt, 0);
  EXPECT_EQ(plan.run_dir, run_dir());
  EXPECT_NE(read_all(run_dir() + "/config.toml").find("seed = 77"), std::string::npos);
}

TEST_F(RunCommand, TellsEachRankItsPlaceAndBindsIt) {
  ::unsetenv("OMP_NUM_THREADS");
  ASSERT_EQ(run(script("echo $TRIREME_RANK/$TRIREME_NUM_RANKS $TRIREME_LOCAL_RANK $OMP_NUM_THREADS "
                       "$(grep Cpus_allowed_list /proc/self/status | cut -f2)"),
                2, {"run.threads_per_rank=3"})
                .status,
            0);
  const auto plan = plan::load_launch_plan(plan::launch_plan_path(run_dir()));
  for (int rank = 0; rank < 2; ++rank) {
    std::string cpus;
    for (const int cpu : plan.ranks[rank].cpus) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
    const std::string place = std::to_string(rank) + "/2 " + std::to_string(rank) + " 3 ";
    EXPECT_EQ(log(rank).find(place), 0u) << log(rank);
    if (plan.ranks[rank].cpus.size() == 1) {
      EXPECT_EQ(log(rank), place + cpus + "\n");
    }
  }
}

TEST_F(RunCommand, KeepsTheUsersNumberOfThreads) {
  ::setenv("OMP_NUM_THREADS", "5", 1);
  const auto result = run(script("echo $OMP_NUM_THREADS"), 1);
  ::setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(result.out, "5\n");
}

TEST_F(RunCommand, ReturnsTheStatusOfTheRankThatFailedAndSaysSoLast) {
  const auto result = run(script("echo about to fail\n[ $TRIREME_RANK = 1 ] && exit 7\nsleep 1000"), 2);
  EXPECT_EQ(result.status, 7);
  const auto last = paragraph(result.err);
  EXPECT_NE(last.find("rank 1 of 2 on "), std::string::npos) << result.err;
  EXPECT_NE(last.find("ended with status 7"), std::string::npos) << last;
  EXPECT_NE(last.find("| about to fail"), std::string::npos) << last;
  EXPECT_NE(last.find("rank-1.log"), std::string::npos) << last;
  EXPECT_EQ(result.err.find("mpirun"), std::string::npos) << "no banner: " << result.err;
}

TEST_F(RunCommand, NamesTheSignalThatKilledARank) {
  const auto result = run(script("[ $TRIREME_RANK = 0 ] && kill -KILL $$\nsleep 1000"), 2);
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(paragraph(result.err).find("rank 0 of 2"), std::string::npos) << result.err;
  EXPECT_NE(paragraph(result.err).find("was killed by SIGKILL"), std::string::npos) << result.err;
}

TEST_F(RunCommand, KillsARankThatIgnoresSigterm) {
  const auto result =
      run(script("[ $TRIREME_RANK = 1 ] && { while [ ! -e ready ]; do sleep 0.02; done; exit 1; }\n"
                 "trap '' TERM\ntouch ready\nwhile :; do sleep 0.2; done"),
          2);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(paragraph(result.err).find("rank 1 of 2"), std::string::npos) << result.err;
}

TEST_F(RunCommand, ShowsTheRanksOwnErrorAndNotThatOfItsVictims) {
  ::setenv("TEST_MODE", "error", 1);
  const auto result = run(page_rank(), 2);
  ::unsetenv("TEST_MODE");
  EXPECT_EQ(result.status, 1);
  const auto last = paragraph(result.err);
  EXPECT_NE(last.find("rank 1 of 2"), std::string::npos) << last;
  EXPECT_NE(last.find("failed: the batch has 3 rows, the layout 4"), std::string::npos) << last;
  EXPECT_NE(last.find("in grpo, after step 2 of 8, in stage update_actor"), std::string::npos) << last;
}

// Its stage takes three times as long as the limit.
TEST_F(RunCommand, ALongRolloutIsNoStallAsLongAsTokensAreMade) {
  ::setenv("TEST_MODE", "rollout", 1);
  const auto result = run(page_rank(), 2, {"--stall-timeout", "2"});
  ::unsetenv("TEST_MODE");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("step 8/8"), std::string::npos) << result.out;
}

TEST_F(RunCommand, AsksNcclBeforeAStalledRunIsEnded) {
  process::Listener nccl(process::Listener::Reach::this_host);
  std::atomic<bool> done{false};
  std::thread server([&] {
    process::Connection client;
    while (!done && !client.is_open()) client = nccl.accept();
    bool asked = false;
    while (!done && !asked)
      client.receive(4096, [&](const std::string& line) { asked = asked || line == "verbose status"; });
    client.send("OK\nJob summary\n===\nErrors\n======\n#0-0 MISMATCH\n  1 rank is behind\n");
  });
  ::setenv("TEST_MODE", "hang", 1);
  ::setenv("NCCL_RAS_ADDR", nccl.addresses().c_str(), 1);
  const auto result = run(page_rank(), 2, {"--stall-timeout", "2"});
  done = true;
  server.join();
  ::unsetenv("NCCL_RAS_ADDR");
  ::unsetenv("TEST_MODE");
  EXPECT_EQ(result.status, 4) << result.err;
  EXPECT_NE(result.err.find("rank 1 of 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("the limit is 2 s)"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("what NCCL says of it:\n  | Errors\n  | #0-0 MISMATCH\n  |   1 rank is behind"),
            std::string::npos)
      << result.err;
}

TEST_F(RunCommand, EndsGrandchildrenWithTheirRank) {
  const auto result = run(script("sleep 1000 &\n(setsid sleep 1000 > /dev/null 2>&1 &)\necho started"), 1);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "started\n");
  EXPECT_EQ(left_running(), std::vector<std::string>{});
}

TEST_F(RunCommand, LosesNoLineOfAFlood) {
  const auto result = run(script("seq 100000"), 2);
  EXPECT_EQ(result.status, 0);
  std::string expected;
  for (int i = 1; i <= 100'000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_TRUE(result.out == expected) << result.out.size() << " bytes of " << expected.size();
  EXPECT_TRUE(log(0) == expected);
  EXPECT_TRUE(log(1) == expected);
}

TEST_F(RunCommand, ShowsALineWithoutAnEndAndBytesThatAreNoText) {
  const auto result = run(script("printf 'a\\377b\\nno end'"), 1);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "a\uFFFDb\nno end\n");
  EXPECT_EQ(log(0), "a\377b\nno end\n");
}

TEST_F(RunCommand, IsNotMovedByStrangersThatConnect) {
  const auto result = run(
      script("exec bash -c '"
             "exec 3<>/dev/tcp/${TRIREME_SUPERVISOR/://}; echo rubbish >&3; cat <&3;"
             "exec 3<>/dev/tcp/${TRIREME_SUPERVISOR/://};"
             "echo \\{\\\"hello\\\":0,\\\"secret\\\":\\\"x\\\",\\\"host\\\":\\\"h\\\",\\\"pid\\\":1\\} >&3;"
             "cat <&3; exec 3<>/dev/tcp/${TRIREME_SUPERVISOR/://}; head -c 9000 /dev/zero >&3; cat <&3; echo "
             "closed'"),
      1);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "closed\n");
}

TEST_F(RunCommand, SaysWhyTheProgramCannotStart) {
  const auto result = run(folder_ / "absent", 2);
  EXPECT_EQ(result.status, 127);
  EXPECT_NE(result.err.find("absent: No such file or directory"), std::string::npos) << result.err;
}

TEST_F(RunCommand, SaysHowToGetMpirun) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const auto result = run(script("exit 0"), 1);
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("openmpi-bin"), std::string::npos) << result.err;
}

TEST_F(RunCommand, IsContinuedInItsFolder) {
  ASSERT_EQ(run(script("echo $TRIREME_ATTEMPT"), 1).out, "0\n");
  const auto again = run(folder_ / "rank.sh", 1);
  EXPECT_EQ(again.out, "1\n");
  EXPECT_NE(again.err.find("continuing"), std::string::npos);
  EXPECT_EQ(log(0), "0\n--- started again: attempt 1 ---\n1\n");
}

TEST_F(RunCommand, RefusesAFolderThatHoldsSomethingElse) {
  std::filesystem::create_directories(run_dir());
  file("run/thesis.tex", "");
  const auto result = run(script("exit 0"), 1);
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("no run"), std::string::npos) << result.err;
}

TEST_F(RunCommand, ShowsProgressBelowTheLinesOnATerminal) {
  start_run(page_rank(), 1, {}, true);
  const auto result = finish();
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("step 8/8\r\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\rgrpo "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" left  "), std::string::npos) << result.out;
  EXPECT_GT(result.out.rfind("\r\x1b[K"), result.out.rfind("grpo")) << "the line is taken away at the end";
}

}  // namespace
}  // namespace trireme::commands
