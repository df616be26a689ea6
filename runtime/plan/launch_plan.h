// What the launcher decided before it started anything: which rank runs where, on what, with which
// environment. The supervisor keeps it as RUN/launch_plan.json and sends it to every guard, which writes the
// same file where the run's folder is not shared.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme::plan {

struct RankPlan {
  std::string host;  // as it calls itself
  int node = 0;      // number of the host among those of the plan
  int local_rank = 0;
  std::vector<int> cpus;   // empty: not bound
  int memory_node = -1;    // preferred, not forced; -1: none
  int gpu = -1;            // among the visible devices of the host in PCI order; -1: none
  std::string gpu_bus_id;  // "0000:3b:00.0", "" without a GPU
  std::string port;        // of the nearest HCA, "mlx5_0:1"; "" without one
  int threads = 1;
  std::map<std::string, std::string> environment;  // set where the user has not set it

  bool operator==(const RankPlan&) const = default;
};

struct LaunchPlan {
  static constexpr int kVersion = 4;

  std::string run_dir;                 // absolute
  std::vector<std::string> program;    // of a rank, absolute, with arguments
  /// The program begins with SIGTERM and SIGUSR1 blocked, and unblocks them when it can obey: a stop that is
  /// asked for while it loads waits for it, instead of ending it without a checkpoint.
  bool holds_stop = false;
  int attempt = 0;                     // from 0; one more whenever the run is started again
  int restarts = 0, max_restarts = 0;  // of this start of the launcher: how often so far, and at most
  std::string master_address;          // where other libraries' ranks may meet: the first host, and a port
  int master_port = 0;                 // that was free on it; 0: nobody looked
  std::vector<RankPlan> ranks;         // by rank

  bool operator==(const LaunchPlan&) const = default;
};

/// Ranks on the host that has this number.
int ranks_on(const LaunchPlan& plan, int node);

/// RUN/launch_plan.json
std::string launch_plan_path(const std::string& run_dir);

std::string to_json(const LaunchPlan& plan);
/// Throws corrupt_data, which names `where` and the field.
LaunchPlan launch_plan_from_json(const std::string& text, const std::string& where);

/// Atomically. Throws io.
void save(const LaunchPlan& plan, const std::string& path);
/// Throws io, corrupt_data.
LaunchPlan load_launch_plan(const std::string& path);

}  // namespace trireme::plan
