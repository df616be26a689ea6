// `trireme-trainer`: the program that every rank runs, and what else needs tensors or tokenizers.
#include <cstdio>
#include <exception>

#include "runtime/base/error.h"
#include "trainer/commands/commands.h"

int main(int argc, char** argv) {
  using namespace trireme;
  try {
    return commands::dispatch({argv + 1, argv + argc});
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return static_cast<int>(exit_status_of(error.code()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return static_cast<int>(ExitStatus::failed);
  }
}
