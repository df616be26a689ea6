// RUN/status.json: what a run is doing, for `trireme list` and its like; and the user's list of runs, which
// says where they lie.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::process {

struct RunStatus {
  std::string run_dir;    // absolute
  std::string state;      // "running", "restarting", "ended"
  std::string host;       // of the launcher
  pid_t pid = 0;          // of the launcher, there
  int64_t birth = 0;      // of that process, in the kernel's ticks: a number may be another's later
  int64_t started_s = 0;  // seconds since 1970
  int ranks = 0, hosts = 0, attempt = 0;
  int exit_status = -1;   // once it has ended
  std::string slurm_job;  // "123" or "123_4"; empty outside of Slurm
  std::string message;    // the first line of why it failed
};

/// Atomically, into the run's folder. Throws io.
void save(const RunStatus& status);
/// Nothing where there is none, or none that this version reads.
std::optional<RunStatus> load_status(const std::string& run_dir);

/// Fills in what is known of this process: host, pid, birth, started_s, slurm_job.
RunStatus status_of_this_process();
/// Whether its launcher lives; nothing if it is of another host.
std::optional<bool> launcher_lives(const RunStatus& status);

/// A line in the list: a folder, with the job that was submitted for it. The list is a folder of small files
/// in $XDG_STATE_HOME, else ~/.local/state; one that cannot be written is no error.
struct ListedRun {
  std::string run_dir, slurm_job;
};
void add_to_list(const ListedRun& run);
/// Those whose folder is gone, and that no job waits to make, are forgotten. Newest first.
std::vector<ListedRun> listed_runs();

}  // namespace trireme::process
