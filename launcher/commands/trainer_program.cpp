#include "launcher/commands/trainer_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launcher/commands/make_plan.h"
#include "launcher/process/child.h"
#include "launcher/process/rank_settings.h"
#include "runtime/base/error.h"

namespace trireme::commands {

std::string trainer_program() {
  const std::string path = program_folder() + "/trireme-trainer";
  if (::access(path.c_str(), X_OK) != 0)
    fail(ErrorCode::io, "the program trireme-trainer is missing: it belongs beside this one, in {}",
         program_folder());
  return path;
}

int run_and_wait(const std::vector<std::string>& command) {
  const pid_t child = process::start_child(
      {.command = command,
       .environment = process::environment_without([](const std::string&) { return false; }, {}),
       .out = 1,
       .err = 2,
       .death_signal = SIGTERM});
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace trireme::commands
