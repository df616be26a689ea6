// A rank for tests that says on its page what it does, as trireme-trainer would.
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/plan/rank_env.h"
#include "runtime/plan/rank_page.h"

int main() {
  using namespace trireme;
  const auto env = plan::RankEnv::from_environment();
  auto page = plan::RankPage::open(env.page);
  const char* wanted = std::getenv("TEST_MODE");
  const std::string mode = wanted ? wanted : "";
  page.set_phase("grpo", 8);
  for (int step = 1; step <= 8; ++step) {
    page.set_stage("update_actor");
    if (mode == "error" && step == 3) {
      const bool cause = env.rank == 1;
      if (cause) ::usleep(200'000);  // the others exit first
      page.set_error(cause ? ErrorCode::bad_shape : ErrorCode::peer_failed,
                     cause ? "the batch has 3 rows, the layout 4" : "rank 1 failed");
      return 1;
    }
    if (mode == "rollout" && step == 2)  // one long stage, of which only ticks can be seen
      for (int forward = 0; forward < 60; ++forward, ::usleep(100'000)) page.tick();
    if (mode == "hang") {
      const int world = page.communicator_slot("world");
      if (env.rank == 1 && step == 3) ::sleep(1000);
      page.begin_collective(world, "all_reduce", "f32", 7);
      if (step == 3) ::sleep(1000);  // rank 1 never comes
      page.end_collective(world);
    }
    ::usleep(150'000);
    page.set_step(step);
    if (env.rank == 0) std::printf("step %d/8\n", step);
    std::fflush(stdout);
  }
}
