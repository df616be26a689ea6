// Where a run goes: this machine, hosts over ssh, or the nodes of a Slurm allocation, by the same options.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/backends/backend.h"
#include "launcher/commands/make_plan.h"
#include "launcher/commands/parse.h"

namespace trireme::commands {

/// --ranks, --nnodes, --nproc-per-node, --hosts, --hostfile, --launcher, --launch-agent, --prefix,
/// --export, --container-image, --container-mounts.
void add_where_options(cxxopts::Options& options);

struct Where {
  enum class Kind { this_machine, ssh, slurm };
  Kind kind = Kind::this_machine;
  std::vector<backends::HostShare> hosts;  // all that are offered; empty on this machine
  backends::HostRequest request;
  bool use_srun = false;
  std::string launch_agent, prefix;
  std::vector<std::string> container;  // options of pyxis, for srun
  std::vector<std::string> exported;   // environment variables that other hosts must get

  /// What starts programs on the hosts. `use_rdma`, once it is known.
  std::unique_ptr<backends::Backend> backend(bool use_rdma) const;
  /// Where our own programs lie on the hosts.
  std::string program_folder() const;
};

/// Throws invalid_config, io.
Where where_to_run(const cxxopts::ParseResult& parsed);

/// The hosts that the run takes, looked at; the first of them are used, the others are spare.
struct GatheredHosts {
  std::vector<std::string> names;  // by which they are reached
  std::vector<Host> hosts;
  std::vector<int> ranks;  // of those that are used
  int num_used() const { return static_cast<int>(ranks.size()); }
};
/// Starts a process on each host, unless all is on this machine. Throws invalid_config, io.
GatheredHosts gather(const Where& where, const config::RunConfig& config);

/// Drops the host that calls itself so, and lets a spare one take its place. False if there is none left.
bool replace_host(GatheredHosts& gathered, const std::string& own_name);

/// Of the used ones: with what make_plan needs from outside.
PlannedRun plan_for(const config::RunConfig& config, const GatheredHosts& gathered);

}  // namespace trireme::commands
