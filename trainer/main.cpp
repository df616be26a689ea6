// `trireme-trainer`: the program that every rank runs, and what else needs tensors or tokenizers.
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "runtime/base/error.h"
#include "trainer/commands/commands.h"

namespace {

// No destructors: where several ranks run, others may sit in a collective that will never be matched. An
// error without a message is told by another rank.
[[noreturn]] void end(const char* message, trireme::ExitStatus status) {
  if (message) std::fprintf(stderr, "trireme: %s\n", message);
  std::fflush(nullptr);
  ::_exit(static_cast<int>(status));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trireme;
  try {
    return commands::dispatch({argv + 1, argv + argc});
  } catch (const Error& error) {
    end(error.message().empty() ? nullptr : error.what(), exit_status_of(error.code()));
  } catch (const std::exception& error) {
    end(error.what(), ExitStatus::failed);
  }
}
