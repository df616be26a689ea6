#include "launcher/commands/make_plan.h"

#include <cstdlib>
#include <filesystem>

#include "launcher/topology/binding.h"
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

topology::Machine machine_for(const config::RunConfig& config) {
  const topology::SysFiles files;
  auto machine = topology::discover(files);
  if (!kGpuBuild || config.run.device == "cpu") machine.gpus.clear();
  machine.gpus = topology::visible_gpus(machine.gpus, topology::Settings::of_this_process(files));
  return machine;
}

plan::LaunchPlan make_plan(const config::RunConfig& config, const topology::Machine& machine,
                           int asked_ranks) {
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

  plan::LaunchPlan plan;
  const auto bindings =
      topology::bind(machine, num_ranks, num_gpus > 0, static_cast<int>(config.run.threads_per_rank));
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto& binding = bindings[rank];
    plan.ranks.push_back({.host = machine.host,
                          .local_rank = rank,
                          .cpus = binding.cpus,
                          .memory_node = binding.memory_node,
                          .gpu = binding.gpu,
                          .gpu_bus_id = binding.gpu < 0 ? "" : machine.gpus[binding.gpu].bus_id,
                          .threads = binding.threads,
                          .environment = {}});
  }
  return plan;
}

std::string program_folder() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::io, "cannot find this program's own folder: {}", error.message());
  return self.parent_path().string();
}

}  // namespace trireme::commands
