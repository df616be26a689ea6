#include "launcher/backends/srun.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme::backends {

std::vector<std::string> Srun::command_line(const std::vector<HostShare>& hosts,
                                            const std::vector<std::string>& program,
                                            const std::vector<std::string>&) const {
  int num_ranks = 0;
  bool even = true;
  std::string names, one_by_one;
  for (const auto& host : hosts) {
    num_ranks += host.ranks;
    even = even && host.ranks == hosts.front().ranks;
    names += (names.empty() ? "" : ",") + host.name;
    for (int i = 0; i < host.ranks; ++i) one_by_one += (one_by_one.empty() ? "" : ",") + host.name;
  }
  std::vector<std::string> command{"srun", "--mpi=pmix", fmt::format("--nodes={}", hosts.size()),
                                   fmt::format("--ntasks={}", num_ranks)};
  if (even) {
    command.push_back(fmt::format("--ntasks-per-node={}", hosts.front().ranks));
    command.push_back("--nodelist=" + names);
    command.emplace_back("--distribution=block");
  } else {
    command.push_back("--nodelist=" + one_by_one);
    command.emplace_back("--distribution=arbitrary");
  }
  // The guards bind; a dead rank is ours to judge, but srun must not wait for the others for ever; what
  // remains of an allocation that lost a node can still be used.
  for (const char* word : {"--cpu-bind=none", "--mem-bind=none", "--overcommit", "--overlap",
                           "--kill-on-bad-exit=1", "--no-kill", "--wait=0", "--input=none", "--export=ALL"})
    command.emplace_back(word);
  command.insert(command.end(), container_.begin(), container_.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

bool Srun::hides(const std::string& variable) const {
  // Those of another job's rank, and requests of the batch job that would change ours.
  static constexpr std::array<std::string_view, 14> kPrefixes{
      "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_",       "OMPI_APP_CTX", "OMPI_FIRST_RANKS",  "OMPI_MCA_orte_",
      "OMPI_MCA_ess",     "OMPI_MCA_pmix",        "PMIX_",        "SLURM_CPU_BIND",    "SLURM_MEM_BIND",
      "SLURM_NTASKS",     "SLURM_TASKS_PER_NODE", "SLURM_STEP_",  "SLURM_DISTRIBUTION"};
  return variable == "SLURM_NPROCS" || variable == "SLURM_PROCID" || variable == "SLURM_LOCALID" ||
         variable == "SLURM_NODEID" || variable == "SLURM_STEPID" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](auto prefix) { return variable.starts_with(prefix); });
}

bool Srun::is_noise(const std::string& line) const {
  static constexpr std::array<std::string_view, 5> kPhrases{
      "srun: Force Terminated", "srun: Job step aborted", "slurmstepd: error: *** STEP", "srun: Terminating",
      "srun: launch/slurm"};
  return line.find_first_not_of("- \t\r") == std::string::npos ||
         std::any_of(kPhrases.begin(), kPhrases.end(), [&](auto phrase) { return line.starts_with(phrase); });
}

std::string Srun::how_to_install() const {
  return "load Slurm's own programs (Debian, Ubuntu: apt-get install slurm-client), or use --launcher mpirun";
}

}  // namespace trireme::backends
