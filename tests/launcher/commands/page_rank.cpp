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
    ::usleep(150'000);
    page.set_step(step);
    if (env.rank == 0) std::printf("step %d/8\n", step);
    std::fflush(stdout);
  }
}
