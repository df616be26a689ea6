#include "launcher/backends/mpirun.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::backends {

namespace {

// The folder of the mpirun that PATH leads to; empty if there is none.
std::filesystem::path folder_of_mpirun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && ::access((folder + "/mpirun").c_str(), X_OK) == 0) return folder;
  return {};
}

}  // namespace

Mpirun::Options Mpirun::options_of_environment() {
  Options options;
  options.is_root = ::geteuid() == 0;
  options.is_set = [](const std::string& name) { return std::getenv(name.c_str()) != nullptr; };
  const auto folder = folder_of_mpirun();
  options.is_version_5 = !folder.empty() && std::filesystem::exists(folder / "prterun");
  // Other hosts find what lies in a usual place by themselves.
  if (!folder.empty() && folder != "/usr/bin" && folder != "/usr/local/bin" && folder != "/bin")
    options.prefix = folder.parent_path();
  return options;
}

Mpirun Mpirun::from_environment() {
  return Mpirun(options_of_environment());
}

void Mpirun::set(std::vector<std::string>& command, const std::string& name, const std::string& value) const {
  if (options_.is_set("OMPI_MCA_" + name)) return;
  for (const auto& word : {std::string("--mca"), name, value}) command.push_back(word);
}

// mpirun, what it shall not do, and how ranks of one machine talk.
std::vector<std::string> Mpirun::base(size_t num_ranks) const {
  std::vector<std::string> command{"mpirun", "-np", std::to_string(num_ranks)};
  if (options_.is_root) command.emplace_back("--allow-run-as-root");
  // Binding is the guard's, by the plan; mpirun shall neither bind nor count slots.
  for (const char* word : {"--bind-to", "none", "--oversubscribe"}) command.emplace_back(word);
  set(command, "btl_vader_single_copy_mechanism", "none");  // containers forbid process_vm_readv
  return command;
}

void Mpirun::add_hosts(std::vector<std::string>& command, const std::vector<HostShare>& hosts) const {
  if (!options_.several_hosts) {
    if (!options_.is_version_5) {
      set(command, "plm", "isolated");  // no daemons on other hosts
      set(command, "oob_tcp_if_include", "127.0.0.0/8");
    }
    set(command, "pml", "ob1");
    set(command, "btl", "self,vader");
    return;
  }
  std::string list;
  for (const auto& host : hosts)
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.name, host.ranks);
  for (const auto& word : {std::string("--host"), list, std::string("--map-by"), std::string("slot")})
    command.push_back(word);
  if (!options_.prefix.empty())
    for (const auto& word : {std::string("--prefix"), options_.prefix}) command.push_back(word);
  if (!options_.in_slurm) {
    const std::string ssh = "ssh -x -o BatchMode=yes -o ConnectTimeout=10";
    set(command, options_.is_version_5 ? "plm_ssh_agent" : "plm_rsh_agent",
        options_.launch_agent.empty() ? ssh : options_.launch_agent);
    // A tree of ssh would need keys on every host.
    if (hosts.size() <= 64)
      set(command, options_.is_version_5 ? "plm_ssh_no_tree_spawn" : "plm_rsh_no_tree_spawn", "1");
  }
  // A host that is gone is noticed in seconds, also by the daemons that nobody else watches.
  if (!options_.is_version_5)
    for (const auto& [name, value] : {std::pair{"oob_tcp_keepalive_time", "3"},
                                      {"oob_tcp_keepalive_intvl", "1"},
                                      {"oob_tcp_keepalive_probes", "3"}})
      set(command, name, value);
  if (!options_.network.empty()) set(command, "oob_tcp_if_include", options_.network);
  if (options_.use_rdma) {
    set(command, "btl", "^openib,uct");  // UCX has the HCAs
  } else {
    set(command, "pml", "ob1");
    set(command, "btl", "self,vader,tcp");
    if (!options_.network.empty()) set(command, "btl_tcp_if_include", options_.network);
  }
}

std::vector<std::string> Mpirun::command_line(const std::vector<HostShare>& hosts,
                                              const std::vector<std::string>& program,
                                              const std::vector<std::string>& exported) const {
  size_t num_ranks = 0;
  for (const auto& host : hosts) num_ranks += static_cast<size_t>(host.ranks);
  std::vector<std::string> command = base(num_ranks);
  add_hosts(command, hosts);
  // Names only: the values travel in the environment, where `ps` does not show them.
  for (const auto& name : exported)
    for (const auto& word : {std::string("-x"), name}) command.push_back(word);
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::vector<std::string> Mpirun::plain_command_line(size_t num_ranks,
                                                    const std::vector<std::string>& program) const {
  std::vector<std::string> command = base(num_ranks);
  add_hosts(command, {});
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
