#include "launcher/process/child.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "launcher/process/clock.h"
#include "runtime/base/error.h"

namespace trireme::process {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// Only a preference of where to run: a kernel or container that refuses it costs speed, not correctness.
void bind(const std::vector<int>& cpus, int memory_node) {
  if (!cpus.empty()) {
    std::array<cpu_set_t, 16> mask{};
    for (const int cpu : cpus) CPU_SET_S(cpu, sizeof(mask), mask.data());
    ::sched_setaffinity(0, sizeof(mask), mask.data());
  }
  if (memory_node >= 0) {
    std::array<unsigned long, 16> nodes{};
    const int bits = 8 * sizeof(unsigned long);
    nodes[memory_node / bits] = 1UL << (memory_node % bits);
    ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), 8 * sizeof(nodes));
  }
}

void reset_signals(const std::vector<int>& blocked) {
  for (int signal = 1; signal < 32; ++signal) std::signal(signal, SIG_DFL);
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : blocked) sigaddset(&mask, signal);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

[[noreturn]] void become(const ChildOptions& options, char** command, char** environment, pid_t parent,
                         int report) {
  ::setpgid(0, 0);
  reset_signals(options.blocked_signals);
  if (options.death_signal) {
    ::prctl(PR_SET_PDEATHSIG, options.death_signal);
    if (::getppid() != parent) ::_exit(1);  // it died before the line above
  }
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, 0);
  ::dup2(options.out >= 0 ? options.out : null, 1);
  ::dup2(options.err >= 0 ? options.err : null, 2);
  if (null > 2) ::close(null);
  bind(options.cpus, options.memory_node);
  ::execvpe(command[0], command, environment);
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(report, &reason, sizeof(reason));
  ::_exit(127);
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream in(it->path() / "children");
    for (pid_t pid; in >> pid;) found.push_back(pid);
  }
  return found;
}

}  // namespace

pid_t start_child(const ChildOptions& options) {
  TRIREME_CHECK(!options.command.empty(), "no command to start");
  auto command = pointers(options.command);
  auto environment = pointers(options.environment);
  std::array<int, 2> report{};  // closed by a successful exec, else it carries the reason
  if (::pipe2(report.data(), O_CLOEXEC) != 0)
    fail(ErrorCode::io, "cannot make a pipe: {}", std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(options, command.data(), environment.data(), parent, report[1]);
  const int fork_error = errno;
  ::close(report[1]);
  int reason = 0;
  ssize_t got = 0;
  if (pid > 0) {
    ::setpgid(pid, pid);  // both sides do it, so that it is done when either goes on
    do got = ::read(report[0], &reason, sizeof(reason));
    while (got < 0 && errno == EINTR);
  }
  ::close(report[0]);
  if (pid < 0) fail(ErrorCode::io, "cannot start {}: {}", options.command[0], std::strerror(fork_error));
  if (got == sizeof(reason)) {
    ::waitpid(pid, nullptr, 0);
    fail(ErrorCode::io, "cannot start {}: {}", options.command[0], std::strerror(reason));
  }
  return pid;
}

bool kill_descendants(pid_t group, std::chrono::milliseconds limit) {
  if (group > 0) ::kill(-group, SIGKILL);
  const auto end = Clock::now() + limit;
  auto nap = std::chrono::microseconds(100);
  // A process that is killed leaves its children to us, so this ends when the whole tree is gone.
  for (;;) {
    for (const pid_t pid : children()) ::kill(pid, SIGKILL);
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid < 0 && errno != EINTR) return true;
    if (pid > 0) continue;
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, std::chrono::microseconds(20'000));
  }
}

std::string process_state(pid_t pid) {
  const auto folder = "/proc/" + std::to_string(pid);
  std::ifstream stat(folder + "/stat"), wchan(folder + "/wchan");
  std::string text, place;
  if (!std::getline(stat, text)) return "gone";
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return "unknown";
  std::getline(wchan, place);
  const std::string state = fmt::format("state {}", text[name_end + 2]);
  return place.empty() || place == "0" ? state : state + ", in " + place;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace trireme::process
