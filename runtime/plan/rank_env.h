// What the launcher hands to one rank, all of it through environment variables: every variable that a
// Trireme process reads is a field here.
#pragma once

#include <string>

namespace trireme::plan {

struct RankEnv {
  int rank = 0;            // TRIREME_RANK, else OMPI_COMM_WORLD_RANK, PMIX_RANK, SLURM_PROCID
  int num_ranks = 1;       // TRIREME_NUM_RANKS, else OMPI_COMM_WORLD_SIZE, SLURM_NTASKS
  int local_rank = 0;      // TRIREME_LOCAL_RANK, else OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID
  int attempt = 0;         // TRIREME_ATTEMPT
  int gpu = -1;            // TRIREME_GPU: among the visible devices in PCI order; -1: none, or not said
  std::string gpu_bus_id;  // TRIREME_GPU_BUS_ID: "0000:3b:00.0", of that GPU; may be empty
  std::string run_dir;     // TRIREME_RUN_DIR: holds launch_plan.json and the resolved config.toml
  std::string secret;      // TRIREME_SECRET: shared by the guards and the supervisor of one run
  std::string page;        // TRIREME_PAGE: the rank's shared-memory page, see rank_page.h; may be empty
  std::string supervisor;  // TRIREME_SUPERVISOR: host:port; may be empty (started by hand)

  /// Reads the environment. Throws invalid_config on a value that is no number.
  static RankEnv from_environment();
};

}  // namespace trireme::plan
