#include "launcher/commands/where.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "launcher/backends/mpirun.h"
#include "launcher/backends/srun.h"
#include "launcher/commands/gather_hosts.h"
#include "launcher/process/connection.h"
#include "launcher/process/switchboard.h"
#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

using backends::HostShare;

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

// What a shell on this host has set for the libraries that ranks use; ssh brings none of it along.
std::vector<std::string> library_settings() {
  static constexpr std::array<std::string_view, 15> kPrefixes{
      "NCCL_", "RCCL_", "UCX_",   "CUDA_",    "HIP_", "HSA_",         "ROCR_",        "OMP_",
      "MKL_",  "KMP_",  "TORCH_", "PYTORCH_", "HF_",  "TRIREME_CPU_", "TRIREME_TEST_"};
  std::vector<std::string> names;
  for (char** at = environ; *at; ++at) {
    const std::string name = std::string(*at).substr(0, std::string_view(*at).find('='));
    const bool wanted = std::any_of(kPrefixes.begin(), kPrefixes.end(),
                                    [&](auto prefix) { return name.starts_with(prefix); });
    if (wanted || name == "LD_LIBRARY_PATH" || name == "LD_PRELOAD") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string own_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The IPv4 address of a name, host byte order; 0 if this host does not know it.
uint32_t address_of(const std::string& name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0 || !found) return 0;
  const auto address = ntohl(reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr);
  ::freeaddrinfo(found);
  return address;
}

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == own_name()) return true;
  const auto address = address_of(name);
  if (address >> 24 == 127) return true;
  const auto own = process::own_addresses();
  return std::any_of(own.begin(), own.end(),
                     [&](const auto& one) { return address && one.address == address; });
}

// The network of ours in which all hosts are; empty if there is no such one, or names are only ssh's.
std::string common_network(const std::vector<HostShare>& hosts) {
  for (const auto& own : process::own_addresses()) {
    if (own.prefix <= 0 || own.prefix >= 32) continue;
    const uint32_t mask = ~uint32_t{0} << (32 - own.prefix);
    const bool all = std::all_of(hosts.begin(), hosts.end(), [&](const HostShare& host) {
      const auto address = address_of(host.name);
      return address && (address & mask) == (own.address & mask);
    });
    if (all) return fmt::format("{}/{}", process::to_text(own.address & mask), own.prefix);
  }
  return {};
}

bool srun_has_pmix() {
  FILE* list = ::popen("srun --mpi=list 2>&1", "re");
  if (!list) return false;
  std::string text;
  std::array<char, 512> chunk{};
  while (std::fgets(chunk.data(), chunk.size(), list)) text += chunk.data();
  return ::pclose(list) == 0 && text.find("pmix") != std::string::npos;
}

int positive(const cxxopts::ParseResult& parsed, const char* name) {
  if (!parsed.count(name)) return 0;
  const int value = parsed[name].as<int>();
  if (value < 1) fail(ErrorCode::invalid_config, "--{} {}: at least 1", name, value);
  return value;
}

}  // namespace

void add_where_options(cxxopts::Options& options) {
  options.add_options()("n,ranks", "number of ranks in all (default: run.ranks, else one per GPU, else 1)",
                        cxxopts::value<int>(), "RANKS")(
      "nnodes", "number of hosts; those that are named beyond are spare", cxxopts::value<int>(), "HOSTS")(
      "nproc-per-node", "ranks on each host", cxxopts::value<int>(), "RANKS")(
      "hosts", "hosts, with their ranks, over ssh", cxxopts::value<std::string>(), "a:4,b:4")(
      "hostfile", "a file with a host in each line, \"NAME slots=4\"", cxxopts::value<std::string>(), "FILE")(
      "launcher", "auto, mpirun or srun: what starts processes inside of a Slurm job",
      cxxopts::value<std::string>()->default_value("auto"),
      "NAME")("launch-agent", "instead of ssh: a command that takes HOST and a shell's line",
              cxxopts::value<std::string>()->default_value(""),
              "COMMAND")("prefix", "where Trireme is installed on the hosts, if not where it is here",
                         cxxopts::value<std::string>()->default_value(""), "DIR")(
      "container-image",
      "an image for pyxis and enroot, in which srun starts the ranks; --prefix says where Trireme lies in it",
      cxxopts::value<std::string>()->default_value(""), "IMAGE")(
      "container-mounts", "what pyxis mounts into it", cxxopts::value<std::string>()->default_value(""),
      "FROM:TO")("export", "environment variables that ranks on other hosts shall have, too",
                 cxxopts::value<std::string>()->default_value(""), "NAME,NAME");
}

Where where_to_run(const cxxopts::ParseResult& parsed) {
  Where where;
  where.request = {.num_ranks = asked_ranks(parsed),
                   .num_hosts = positive(parsed, "nnodes"),
                   .ranks_per_host = positive(parsed, "nproc-per-node")};
  where.launch_agent = parsed["launch-agent"].as<std::string>();
  where.prefix = parsed["prefix"].as<std::string>();
  where.exported = library_settings();
  std::istringstream more(parsed["export"].as<std::string>());
  for (std::string name; std::getline(more, name, ',');)
    if (!name.empty()) where.exported.push_back(name);
  if (parsed.count("hosts") && parsed.count("hostfile"))
    fail(ErrorCode::invalid_config, "--hosts and --hostfile: give one of them");
  const auto launcher = parsed["launcher"].as<std::string>();
  if (launcher != "auto" && launcher != "mpirun" && launcher != "srun")
    fail(ErrorCode::invalid_config, "--launcher {}: auto, mpirun or srun", launcher);
  if (parsed.count("hosts")) where.hosts = backends::read_hosts(parsed["hosts"].as<std::string>());
  if (parsed.count("hostfile")) where.hosts = backends::read_hostfile(parsed["hostfile"].as<std::string>());
  if (!where.hosts.empty()) {
    where.kind = Where::Kind::ssh;
    if (where.hosts.size() == 1 && is_this_host(where.hosts[0].name)) {
      where.kind = Where::Kind::this_machine;
      if (!where.request.num_ranks) where.request.num_ranks = where.hosts[0].ranks;
    }
  } else if (variable("SLURM_JOB_ID") && variable("SLURM_JOB_NODELIST")) {
    where.kind = Where::Kind::slurm;
    where.hosts = backends::slurm_hosts(variable);
    where.use_srun = launcher == "srun" || (launcher == "auto" && srun_has_pmix());
  } else if (launcher == "srun") {
    fail(ErrorCode::invalid_config,
         "--launcher srun: this is no Slurm allocation; `trireme slurm` makes a job");
  }
  if (const auto image = parsed["container-image"].as<std::string>(); !image.empty()) {
    if (!where.use_srun)
      fail(ErrorCode::invalid_config, "--container-image {}: only srun's pyxis starts containers", image);
    where.container.push_back("--container-image=" + image);
    if (const auto mounts = parsed["container-mounts"].as<std::string>(); !mounts.empty())
      where.container.push_back("--container-mounts=" + mounts);
  }
  if (where.kind != Where::Kind::this_machine) return where;
  if (where.request.num_hosts > 1)
    fail(ErrorCode::invalid_config,
         "--nnodes {}: name the hosts by --hosts or --hostfile, or start the run inside of a Slurm job",
         where.request.num_hosts);
  if (!where.request.num_ranks) where.request.num_ranks = where.request.ranks_per_host;
  return where;
}

std::unique_ptr<backends::Backend> Where::backend(bool use_rdma) const {
  if (use_srun) return std::make_unique<backends::Srun>(container);
  auto options = backends::Mpirun::options_of_environment();
  options.several_hosts = kind != Kind::this_machine;
  options.in_slurm = kind == Kind::slurm;
  options.launch_agent = launch_agent;
  options.use_rdma = use_rdma;
  if (options.several_hosts) options.network = common_network(hosts);
  return std::make_unique<backends::Mpirun>(std::move(options));
}

std::string Where::program_folder() const {
  return prefix.empty() ? commands::program_folder() : prefix + "/bin";
}

GatheredHosts gather(const Where& where, const config::RunConfig& config) {
  GatheredHosts gathered;
  if (where.kind == Where::Kind::this_machine) {
    gathered.hosts.push_back(this_host());
    gathered.hosts[0].free_port = process::free_port();
    gathered.names = {gathered.hosts[0].machine.host};
    keep_usable_gpus(gathered.hosts[0], config);
    gathered.ranks = {ranks_of_one_host(config, gathered.hosts[0], where.request.num_ranks)};
    return gathered;
  }
  for (const auto& host : where.hosts) gathered.names.push_back(host.name);
  gathered.hosts = gather_hosts(gathered.names, *where.backend(false),
                                {where.program_folder() + "/trireme", "report-host"}, where.exported);
  for (auto& host : gathered.hosts) keep_usable_gpus(host, config);
  auto request = where.request;
  const bool says_nothing =
      !request.num_ranks && !request.ranks_per_host &&
      std::none_of(where.hosts.begin(), where.hosts.end(), [](const auto& host) { return host.ranks; });
  if (says_nothing) request.num_ranks = static_cast<int>(config.run.ranks);
  const auto choice = backends::choose_hosts(where.hosts, request, [&](const HostShare& share) {
    for (size_t i = 0; i < gathered.names.size(); ++i)
      if (gathered.names[i] == share.name)
        return std::max(1, static_cast<int>(gathered.hosts[i].machine.gpus.size()));
    return 1;
  });
  for (const auto& host : choice.used) gathered.ranks.push_back(host.ranks);
  return gathered;
}

bool replace_host(GatheredHosts& gathered, const std::string& own_name) {
  const int used = gathered.num_used();
  if (static_cast<int>(gathered.names.size()) <= used) return false;
  for (int i = 0; i < used; ++i) {
    if (gathered.hosts[static_cast<size_t>(i)].machine.host != own_name) continue;
    std::swap(gathered.hosts[static_cast<size_t>(i)], gathered.hosts[static_cast<size_t>(used)]);
    std::swap(gathered.names[static_cast<size_t>(i)], gathered.names[static_cast<size_t>(used)]);
    gathered.hosts.erase(gathered.hosts.begin() + used);
    gathered.names.erase(gathered.names.begin() + used);
    return true;
  }
  return false;
}

PlannedRun plan_for(const config::RunConfig& config, const GatheredHosts& gathered) {
  const std::vector<Host> used(gathered.hosts.begin(), gathered.hosts.begin() + gathered.num_used());
  const auto address = used.size() > 1 ? address_of(gathered.names.front()) : 0;
  auto planned = make_plan(config, used, gathered.ranks, address);
  planned.plan.master_address = used.size() == 1 ? "127.0.0.1"
                                : address        ? process::to_text(address)
                                                 : gathered.names.front();
  return planned;
}

}  // namespace trireme::commands
