// A rank for tests that says whether it got what the launch plan gives it.
#include <cstdio>

#include "runtime/plan/binding_check.h"
#include "runtime/plan/rank_env.h"

int main() {
  using namespace trireme;
  const auto env = plan::RankEnv::from_environment();
  const auto plan = plan::load_launch_plan(plan::launch_plan_path(env.run_dir));
  for (const auto& difference : plan::binding_differences(plan.ranks.at(env.rank)))
    std::printf("%s\n", difference.c_str());
  std::printf("checked\n");
}
