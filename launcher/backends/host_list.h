// The hosts of a job, as users and batch systems write them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme::backends {

/// A host by the name under which it is reached, and how many ranks it gets.
struct HostShare {
  std::string name;
  int ranks = 0;  // 0: not said

  bool operator==(const HostShare&) const = default;
};

/// "a:4,b:4" or "a,b". Throws invalid_config: an empty name, a number below 1, a host named twice.
std::vector<HostShare> read_hosts(const std::string& text);

/// Lines "NAME", "NAME slots=4" (Open MPI, DeepSpeed) or "NAME:4"; # begins a comment. Throws as above, with
/// file and line; io.
std::vector<HostShare> read_hostfile(const std::string& path);

/// A Slurm allocation: the nodes of SLURM_JOB_NODELIST in Slurm's order, with the tasks that
/// SLURM_TASKS_PER_NODE gives them. `variable(name)` reads the environment. Throws invalid_config.
std::vector<HostShare> slurm_hosts(
    const std::function<std::optional<std::string>(const std::string&)>& variable);

/// "n[0-2,5],gpu-a[08-10]" to names. Throws invalid_config.
std::vector<std::string> expand_node_list(const std::string& text);

/// Which hosts a run takes, and how many ranks on each.
struct HostChoice {
  std::vector<HostShare> used;
  std::vector<std::string> spare;  // to take the place of one that is lost
};
struct HostRequest {
  int num_ranks = 0, num_hosts = 0, ranks_per_host = 0;  // 0: not asked for
};
/// `otherwise(host)`: ranks where neither the request nor the list says (GPUs of the host, else 1). Hosts are
/// filled in their order. Throws invalid_config with what does not fit.
HostChoice choose_hosts(const std::vector<HostShare>& hosts, const HostRequest& request,
                        const std::function<int(const HostShare&)>& otherwise);

}  // namespace trireme::backends
