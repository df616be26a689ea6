#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "launcher/commands/examine_host.h"
#include "launcher/process/child.h"
#include "launcher/process/clock.h"
#include "launcher/process/rank_settings.h"
#include "runtime/base/error.h"

namespace trireme::commands {

using namespace std::chrono_literals;
using process::Clock;

doctor::Collective try_collective(const Where& where) {
  constexpr auto kLimit = 40s;
  std::vector<backends::HostShare> shares;
  for (const auto& host : where.hosts) shares.push_back({.name = host.name, .ranks = 1});
  std::vector<std::string> command{where.program_folder() + "/trireme-trainer"};
  for (auto& word : doctor::collective_arguments()) command.push_back(std::move(word));
  const auto backend = where.backend(false);
  const int output = ::memfd_create("collective", MFD_CLOEXEC);
  const pid_t child =
      process::start_child({.command = backend->command_line(shares, command, where.exported),
                            .environment = process::guard_environment(
                                [&](const std::string& name) { return backend->hides(name); }, {}),
                            .out = output,
                            .err = output,
                            .death_signal = SIGTERM});
  int status = 0;
  bool ended = false;
  const auto wait = [&](Clock::duration patience) {
    for (const auto limit = Clock::now() + patience; !ended && Clock::now() < limit; ::usleep(5000))
      ended = ::waitpid(child, &status, WNOHANG) == child;
    return ended;
  };
  const bool in_time = wait(kLimit);
  if (!in_time) ::kill(-child, SIGTERM);
  if (!wait(5s)) {
    ::kill(-child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  std::string printed(static_cast<size_t>(std::max<off_t>(0, ::lseek(output, 0, SEEK_END))), '\0');
  const ssize_t size = ::pread(output, printed.data(), printed.size(), 0);
  printed.resize(size > 0 ? static_cast<size_t>(size) : 0);
  ::close(output);
  return doctor::collective_from(printed, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                                 !in_time);
}

}  // namespace trireme::commands
