// `trireme-trainer`: the program that every rank runs, and what else needs tensors or tokenizers.
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "runtime/base/error.h"
#include "trainer/commands/commands.h"

namespace {

// No destructors: where several ranks run, others may sit in a collective that will never be matched, and
// those of LibTorch's own tables take a quarter of the time of a program that does little. An error without a
// message is told by another rank.
[[noreturn]] void end(const char* message, int status) {
  if (message) std::fprintf(stderr, "trireme: %s\n", message);
  std::fflush(nullptr);
  ::_exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trireme;
  try {
    end(nullptr, commands::dispatch({argv + 1, argv + argc}));
  } catch (const Error& error) {
    end(error.message().empty() ? nullptr : error.what(), static_cast<int>(exit_status_of(error.code())));
  } catch (const std::exception& error) {
    end(error.what(), static_cast<int>(ExitStatus::failed));
  }
}
