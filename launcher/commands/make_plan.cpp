#include "launcher/commands/make_plan.h"

#include <algorithm>
#include <filesystem>

#include "launcher/topology/host_plan.h"
#include "runtime/base/error.h"
#include "trainer/config/load.h"

namespace trireme::commands {
namespace {

#ifdef TRIREME_WITH_GPU
constexpr bool kGpuBuild = true;
#else
constexpr bool kGpuBuild = false;
#endif

}  // namespace

Host this_host() {
  const topology::SysFiles files;
  return {.machine = topology::discover(files), .settings = topology::Settings::of_this_process(files)};
}

void keep_usable_gpus(Host& host, const config::RunConfig& config) {
  auto& gpus = host.machine.gpus;
  if (!kGpuBuild || config.run.device == "cpu") gpus.clear();
  gpus = topology::visible_gpus(std::move(gpus), host.settings);
}

int ranks_of_one_host(const config::RunConfig& config, const Host& host, int asked) {
  if (asked) return asked;
  if (config.run.ranks) return static_cast<int>(config.run.ranks);
  return std::max(1, static_cast<int>(host.machine.gpus.size()));
}

namespace {

void check_host(const config::RunConfig& config, const topology::Machine& machine, int ranks,
                Mistakes& mistakes) {
  if (config.run.device == "cuda" && machine.gpus.empty())
    mistakes.add("run.device",
                 kGpuBuild ? fmt::format("is \"cuda\", but {} shows no GPU; try run.device=cpu", machine.host)
                           : "is \"cuda\", but this is the build for CPUs; build the preset `cuda`");
  if (ranks > machine.num_cpus() && config.run.threads_per_rank == 0)
    mistakes.add(
        "run.ranks",
        fmt::format("{} ranks, but {} has {} CPUs for us; ask for at most {} (-n), or let ranks share "
                    "CPUs with run.threads_per_rank=1 (slow)",
                    ranks, machine.host, machine.num_cpus(), machine.num_cpus()));
}

// The ranks of one host, behind those of the hosts before it.
void add_ranks(const Host& host, const topology::HostPlan& mine, int node, plan::LaunchPlan& plan) {
  const auto& machine = host.machine;
  for (size_t local = 0; local < mine.ranks.size(); ++local) {
    const auto& rank = mine.ranks[local];
    const auto& binding = rank.binding;
    auto& r = plan.ranks.emplace_back();
    r.host = machine.host;
    r.node = node;
    r.local_rank = static_cast<int>(local);
    r.cpus = binding.cpus;
    r.memory_node = binding.memory_node;
    r.gpu = binding.gpu;
    r.gpu_bus_id = binding.gpu < 0 ? "" : machine.gpus[static_cast<size_t>(binding.gpu)].bus_id;
    r.port = rank.port && !machine.gpus.empty() ? topology::port_name(machine, *rank.port) : "";
    r.threads = binding.threads;
    for (const auto& list : {mine.variables, rank.variables})
      for (const auto& variable : list) r.environment[variable.name] = variable.value;
  }
}

void add_warnings(const Host& host, const topology::HostPlan& mine, bool names_host,
                  std::vector<std::string>& warnings) {
  const auto where = names_host ? host.machine.host + ": " : std::string();
  if (!host.machine.gpus.empty())
    for (const auto& warning : mine.choice.warnings) warnings.push_back(where + warning);
  for (const auto& remark : mine.remarks)
    if (remark.kind == topology::Remark::Kind::wrong)
      warnings.push_back(
          fmt::format("{}{}={} ({}): {}", where, remark.name, remark.value, remark.source, remark.text));
}

}  // namespace

PlannedRun make_plan(const config::RunConfig& config, const std::vector<Host>& hosts,
                     const std::vector<int>& ranks, uint32_t first_address) {
  Mistakes mistakes;
  int num_ranks = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    check_host(config, hosts[i].machine, ranks[i], mistakes);
    num_ranks += ranks[i];
  }
  mistakes.throw_if_any(hosts.size() > 1 ? "the run does not fit these machines:"
                                         : "the run does not fit this machine:");
  config::check_ranks(config, num_ranks);

  PlannedRun planned;
  std::vector<topology::HostPorts> ports;
  planned.use_rdma = true;
  for (const auto& host : hosts) {
    const auto choice = topology::choose_hcas(host.machine, host.settings.find("NCCL_IB_HCA"));
    planned.use_rdma = planned.use_rdma && !choice.used.empty();
    ports.push_back(topology::host_ports(host.machine, choice));
  }
  const topology::JobShape job{
      .num_hosts = static_cast<int>(hosts.size()), .use_rdma = planned.use_rdma, .first_host = first_address};
  for (size_t i = 0; i < hosts.size(); ++i) {
    const auto mine = topology::plan_host(hosts[i].machine, hosts[i].settings, job, ranks[i],
                                          static_cast<int>(config.run.threads_per_rank));
    add_ranks(hosts[i], mine, static_cast<int>(i), planned.plan);
    add_warnings(hosts[i], mine, hosts.size() > 1, planned.warnings);
  }
  const bool any_gpu =
      std::any_of(hosts.begin(), hosts.end(), [](const Host& h) { return !h.machine.gpus.empty(); });
  if (hosts.size() > 1 && any_gpu)
    for (auto& difference : topology::differences(ports)) planned.warnings.push_back(std::move(difference));
  planned.plan.master_port = hosts.front().free_port;
  return planned;
}

std::string program_folder() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::io, "cannot find this program's own folder: {}", error.message());
  return self.parent_path().string();
}

}  // namespace trireme::commands
