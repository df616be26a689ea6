// The text of a batch script for Slurm.
#pragma once

#include <string>
#include <vector>

namespace trireme::commands {

struct BatchJob {
  std::string program;  // `trireme`, absolute
  std::string config;   // absolute
  std::vector<std::string> overrides;
  std::string folder;  // in which it runs
  std::string name;
  int nodes = 1, spare = 0;
  int ranks_per_node = 0;                    // 0: as `trireme run` finds them
  int gpus_per_node = 0, cpus_per_node = 0;  // 0: not asked for; no CPUs: whole nodes
  std::string time;
  int warn_seconds = 300;
  std::string run_dir;      // empty: made from runs_folder, name and the job's number
  std::string runs_folder;  // absolute
  std::vector<std::string> options, setup;
  std::string sweep_key;
  std::vector<std::string> sweep_values;  // empty: one run
  int max_requeues = 20, max_restarts = 3;
  std::string launcher = "auto";
  std::string container, container_mounts;
};

/// "KEY=a,b,c" into sweep_key and sweep_values. Throws invalid_config.
void read_sweep(const std::string& text, BatchJob& job);

std::string batch_script(const BatchJob& job);

}  // namespace trireme::commands
