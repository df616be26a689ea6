#include "launcher/process/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/process/rank_log.h"
#include "runtime/base/error.h"

namespace trireme::process {
namespace {

struct Ran {
  int status;
  std::string out;
};

Ran shell(const std::string& script, ChildOptions options = {}) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("trireme_child_test_" + std::to_string(::getpid()));
  options.command = {"/bin/sh", "-c", script};
  options.out = options.err = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t child = start_child(options);
  Ran ran{};
  ::waitpid(child, &ran.status, 0);
  ::close(options.out);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  ran.out = text.str();
  std::filesystem::remove(path);
  return ran;
}

TEST(Child, GetsExactlyTheGivenEnvironment) {
  EXPECT_EQ(shell("echo $GREETING $HOME", {.environment = {"GREETING=hello"}}).out, "hello\n");
}

TEST(Child, IsBoundToTheGivenCpus) {
  EXPECT_EQ(shell("grep Cpus_allowed_list /proc/self/status", {.cpus = {0}}).out, "Cpus_allowed_list:\t0\n");
}

TEST(Child, LeadsItsOwnGroupWithSignalsAtTheirDefaults) {
  std::signal(SIGTERM, SIG_IGN);
  const auto ran = shell("kill -TERM 0; sleep 10");
  std::signal(SIGTERM, SIG_DFL);
  ASSERT_TRUE(WIFSIGNALED(ran.status));
  EXPECT_EQ(WTERMSIG(ran.status), SIGTERM);
}

TEST(Child, IsNotEndedByASignalThatIsBlockedForIt) {
  EXPECT_EQ(shell("kill -TERM $$; echo still here", {.blocked_signals = {SIGTERM}}).out, "still here\n");
  EXPECT_EQ(shell("kill -INT $$; echo still here", {.blocked_signals = {SIGTERM}}).out, "");
}

TEST(Child, SaysWhyItCannotStart) {
  try {
    start_child({.command = {"/no/such/program"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot start /no/such/program: No such file or directory");
  }
}

TEST(KillDescendants, EndsGrandchildrenThatLeftTheGroup) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto ran = shell("setsid sh -c 'sleep 1000 & echo $!; trap \"\" TERM; sleep 1000' & sleep 0.3");
  kill_descendants(0);
  const pid_t grandchild = std::stoi(ran.out);
  EXPECT_NE(::kill(grandchild, 0), 0);
}

TEST(SignalName, FallsBackToTheNumber) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(199), "signal 199");
}

TEST(RankLog, KeepsWholeLinesOfBothStreams) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("trireme_rank_log_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "logs");
  {
    RankLog log(folder, 1, 0);
    EXPECT_TRUE(log.add(0, "half", 4).empty());
    EXPECT_EQ(log.add(1, "error\r\n", 7), std::vector<std::string>{"error"});
    EXPECT_EQ(log.add(0, " line\nrest", 10), std::vector<std::string>{"half line"});
    EXPECT_EQ(log.rest(0), std::vector<std::string>{"rest"});
    EXPECT_TRUE(log.rest(1).empty());
    const std::string endless(100'000, 'x');
    EXPECT_EQ(log.add(0, endless.data(), endless.size()), std::vector<std::string>{endless});
  }
  const auto path = rank_log_path(folder, 1);
  EXPECT_EQ(last_lines(path, 20).size(), 1u) << "the long line's end is all that is read";
  EXPECT_TRUE(last_lines(folder / "absent", 20).empty());
  std::ifstream in(path);
  std::string first, second, third;
  std::getline(in, first);
  std::getline(in, second);
  std::getline(in, third);
  EXPECT_EQ(first + "|" + second + "|" + third, "error|half line|rest");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme::process
