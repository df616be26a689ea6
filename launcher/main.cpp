// The `trireme` command: starts runs and answers questions about them. Needs no MPI, CUDA or Torch.
#include <cstdio>
#include <exception>

#include "launcher/commands/commands.h"
#include "runtime/base/error.h"

int main(int argc, char** argv) {
  using namespace trireme;
  try {
    return commands::dispatch({argv + 1, argv + argc});
  } catch (const Error& error) {
    fmt::print(stderr, "trireme: {}\n", error.what());
    return static_cast<int>(exit_status_of(error.code()));
  } catch (const std::exception& error) {
    fmt::print(stderr, "trireme: {}\n", error.what());
    return static_cast<int>(ExitStatus::failed);
  }
}
