// A session that initializes and finalizes MPI itself, on its own thread: needs a main without MPI_Init.
#include <mpi.h>

#include <cstdio>
#include <stdexcept>

#include "runtime/base/error.h"
#include "runtime/session/session.h"

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

bool finalized() {
  int yes = 0;
  MPI_Finalized(&yes);
  return yes;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trireme;
  const bool fails = argc > 1 && std::string(argv[1]) == "fails";
  plan::RankEnv env = plan::RankEnv::from_environment();
  try {
    session::Session session(env, {.actor = {0, 1}, .rollout = {0, 1}}, comm::Device::cpu);
    expect(session.num_ranks() == 2 && session.rank() == env.rank, "two ranks, in the launcher's order");
    expect(session.world().all_reduce_scalar(session.rank() + 1.0) == 3, "a sum over the ranks");
    if (fails) throw std::runtime_error("an error on every rank");
  } catch (const std::runtime_error& error) {
    expect(fails, error.what());
  }
  expect(finalized() == !fails, fails ? "no finalize after an error" : "finalized at the end");
  if (fails) MPI_Finalize();  // a real rank ends with _exit(); here mpirun must see a clean end
  return failures != 0;
}
