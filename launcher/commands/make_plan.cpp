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

Host host_for(const config::RunConfig& config) {
  const topology::SysFiles files;
  Host host{.machine = topology::discover(files), .settings = topology::Settings::of_this_process(files)};
  auto& gpus = host.machine.gpus;
  if (!kGpuBuild || config.run.device == "cpu") gpus.clear();
  gpus = topology::visible_gpus(std::move(gpus), host.settings);
  return host;
}

PlannedRun make_plan(const config::RunConfig& config, const Host& host, int asked_ranks) {
  const topology::Machine& machine = host.machine;
  Mistakes mistakes;
  if (config.run.device == "cuda" && machine.gpus.empty())
    mistakes.add("run.device", kGpuBuild
                                   ? "is \"cuda\", but this machine shows no GPU; try run.device=cpu"
                                   : "is \"cuda\", but this is the build for CPUs; build the preset `cuda`");
  const int num_gpus = static_cast<int>(machine.gpus.size());
  int num_ranks = asked_ranks ? asked_ranks : static_cast<int>(config.run.ranks);
  if (num_ranks == 0) num_ranks = std::max(1, num_gpus);
  if (num_ranks > machine.num_cpus() && config.run.threads_per_rank == 0)
    mistakes.add(
        asked_ranks ? "-n" : "run.ranks",
        fmt::format("{} ranks, but this machine has {} CPUs for us; ask for at most {}, or let ranks share "
                    "CPUs with run.threads_per_rank=1 (slow)",
                    num_ranks, machine.num_cpus(), machine.num_cpus()));
  mistakes.throw_if_any("the run does not fit this machine:");
  config::check_ranks(config, num_ranks);

  const auto mine = topology::plan_host(machine, host.settings, {.num_hosts = 1}, num_ranks,
                                        static_cast<int>(config.run.threads_per_rank));
  PlannedRun planned;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto& local = mine.ranks[rank];
    const auto& binding = local.binding;
    auto& r = planned.plan.ranks.emplace_back();
    r.host = machine.host;
    r.local_rank = rank;
    r.cpus = binding.cpus;
    r.memory_node = binding.memory_node;
    r.gpu = binding.gpu;
    r.gpu_bus_id = binding.gpu < 0 ? "" : machine.gpus[binding.gpu].bus_id;
    r.port = local.port && num_gpus ? topology::port_name(machine, *local.port) : "";
    r.threads = binding.threads;
    for (const auto& list : {mine.variables, local.variables})
      for (const auto& variable : list) r.environment[variable.name] = variable.value;
  }
  if (num_gpus) planned.warnings = mine.choice.warnings;
  for (const auto& remark : mine.remarks)
    if (remark.kind == topology::Remark::Kind::wrong)
      planned.warnings.push_back(
          fmt::format("{}={} ({}): {}", remark.name, remark.value, remark.source, remark.text));
  return planned;
}

std::string program_folder() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::io, "cannot find this program's own folder: {}", error.message());
  return self.parent_path().string();
}

}  // namespace trireme::commands
