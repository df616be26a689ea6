#include "runtime/plan/rank_env.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "runtime/base/error.h"

namespace trireme::plan {
namespace {

int number_from(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    const char* text = std::getenv(name);
    if (!text || !*text) continue;
    int value = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || stop != end)
      fail(ErrorCode::invalid_config, "the environment variable {} is '{}', which is no whole number", name,
           text);
    return value;
  }
  return otherwise;
}

std::string text_from(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

}  // namespace

RankEnv RankEnv::from_environment() {
  RankEnv env;
  env.rank = number_from({"TRIREME_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}, 0);
  env.num_ranks = number_from({"TRIREME_NUM_RANKS", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 1);
  env.local_rank = number_from({"TRIREME_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0);
  env.attempt = number_from({"TRIREME_ATTEMPT"}, 0);
  env.gpu = number_from({"TRIREME_GPU"}, -1);
  env.gpu_bus_id = text_from("TRIREME_GPU_BUS_ID");
  env.run_dir = text_from("TRIREME_RUN_DIR");
  env.secret = text_from("TRIREME_SECRET");
  env.page = text_from("TRIREME_PAGE");
  env.supervisor = text_from("TRIREME_SUPERVISOR");
  if (env.num_ranks < 1 || env.rank < 0 || env.rank >= env.num_ranks)
    fail(ErrorCode::invalid_config, "rank {} of {} ranks does not exist (TRIREME_RANK, TRIREME_NUM_RANKS)",
         env.rank, env.num_ranks);
  return env;
}

}  // namespace trireme::plan
