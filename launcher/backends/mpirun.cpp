#include "launcher/backends/mpirun.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace trireme::backends {

Mpirun::Mpirun(bool is_root, std::function<bool(const std::string&)> is_set)
    : is_root_(is_root), is_set_(std::move(is_set)) {}

Mpirun Mpirun::from_environment() {
  return Mpirun(::geteuid() == 0,
                [](const std::string& name) { return std::getenv(name.c_str()) != nullptr; });
}

// mpirun, and how it shall start ranks on this machine.
std::vector<std::string> Mpirun::local_ranks(size_t num_ranks) const {
  static constexpr std::array<std::pair<const char*, const char*>, 5> kParameters{{
      {"plm", "isolated"},  // no agents on other hosts
      {"oob_tcp_if_include", "127.0.0.0/8"},
      {"pml", "ob1"},
      {"btl", "self,vader"},
      {"btl_vader_single_copy_mechanism", "none"},  // containers forbid process_vm_readv
  }};
  std::vector<std::string> command{"mpirun", "-np", std::to_string(num_ranks)};
  if (is_root_) command.emplace_back("--allow-run-as-root");
  // Binding is the guard's, by the plan; mpirun shall neither bind nor count slots.
  for (const char* word : {"--bind-to", "none", "--oversubscribe"}) command.emplace_back(word);
  for (const auto& [name, value] : kParameters) {
    if (is_set_(std::string("OMPI_MCA_") + name)) continue;
    for (const char* word : {"--mca", name, value}) command.emplace_back(word);
  }
  return command;
}

std::vector<std::string> Mpirun::command_line(const plan::LaunchPlan& plan,
                                              const std::vector<std::string>& guard) const {
  std::vector<std::string> command = local_ranks(plan.ranks.size());
  // Names only: the values travel in the environment, where `ps` does not show them.
  for (const char* name : {"TRIREME_RUN_DIR", "TRIREME_SUPERVISOR", "TRIREME_SECRET"})
    for (const char* word : {"-x", name}) command.emplace_back(word);
  command.insert(command.end(), guard.begin(), guard.end());
  return command;
}

std::vector<std::string> Mpirun::plain_command_line(size_t num_ranks,
                                                    const std::vector<std::string>& program) const {
  std::vector<std::string> command = local_ranks(num_ranks);
  command.emplace_back("--quiet");  // a rank that fails has said why itself
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

bool Mpirun::hides(const std::string& variable) const {
  static constexpr std::array<std::string_view, 8> kPrefixes{
      "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_APP_CTX",  "OMPI_FIRST_RANKS",
      "OMPI_MCA_orte_",   "OMPI_MCA_ess",   "OMPI_MCA_pmix", "PMIX_"};
  return variable != "OMPI_MCA_orte_tmpdir_base" &&
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](auto prefix) { return variable.starts_with(prefix); });
}

bool Mpirun::is_noise(const std::string& line) const {
  static constexpr std::array<std::string_view, 6> kPhrases{"Primary job  terminated normally",
                                                            "a non-zero exit code. Per user-direction",
                                                            "mpirun detected that one or more",
                                                            "the job to be terminated. The first process",
                                                            "  Process name: [[",
                                                            "  Exit code:  "};
  return line.find_first_not_of("- \t\r") == std::string::npos ||
         std::any_of(kPhrases.begin(), kPhrases.end(), [&](auto phrase) { return line.starts_with(phrase); });
}

std::string Mpirun::how_to_install() const {
  return "install Open MPI 4.1 (Debian, Ubuntu: apt-get install openmpi-bin), or put its bin folder on PATH";
}

}  // namespace trireme::backends
