#include <fmt/format.h>

#include <cstdio>

#include "launcher/commands/commands.h"
#include "launcher/commands/trainer_program.h"
#include "runtime/base/error.h"

namespace trireme::commands {

int version() {
  fmt::print("trireme {}\n", TRIREME_VERSION);
  std::fflush(stdout);
  try {
    return run_and_wait({trainer_program(), "--version"});
  } catch (const Error& error) {
    fmt::print("trireme-trainer: {}\n", error.message());
    return 0;
  }
}

}  // namespace trireme::commands
