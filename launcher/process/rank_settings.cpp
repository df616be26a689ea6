#include "launcher/process/rank_settings.h"

#include <cstdlib>
#include <map>

#include "runtime/base/error.h"

namespace trireme::process {

std::vector<std::string> rank_environment(const plan::LaunchPlan& plan, const plan::RankEnv& guard,
                                          const std::string& page) {
  const plan::RankPlan& mine = plan.ranks.at(guard.rank);
  std::map<std::string, std::string> set = {
      {"TRIREME_RANK", std::to_string(guard.rank)},
      {"TRIREME_NUM_RANKS", std::to_string(plan.ranks.size())},
      {"TRIREME_LOCAL_RANK", std::to_string(mine.local_rank)},
      {"TRIREME_ATTEMPT", std::to_string(plan.attempt)},
      {"TRIREME_GPU", std::to_string(mine.gpu)},
      {"TRIREME_GPU_BUS_ID", mine.gpu_bus_id},
      {"TRIREME_RUN_DIR", guard.run_dir},
      {"TRIREME_PAGE", page},
      // torchrun's, for libraries and reward functions that look for them.
      {"RANK", std::to_string(guard.rank)},
      {"WORLD_SIZE", std::to_string(plan.ranks.size())},
      {"LOCAL_RANK", std::to_string(mine.local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(plan::ranks_on(plan, mine.node))},
      {"GROUP_RANK", std::to_string(mine.node)},
      {"GROUP_WORLD_SIZE", std::to_string(plan.ranks.back().node + 1)},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", std::to_string(guard.rank)},
      {"ROLE_WORLD_SIZE", std::to_string(plan.ranks.size())},
      {"MASTER_ADDR", plan.master_address},
      {"MASTER_PORT", std::to_string(plan.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(plan.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(plan.max_restarts)},
      {"TORCHELASTIC_RUN_ID", fmt::format("{}-{}", plan.run_dir, plan.attempt)},
  };
  const auto prefer = [&](const std::string& name, const std::string& value) {
    if (!std::getenv(name.c_str())) set[name] = value;
  };
  prefer("OMP_NUM_THREADS", std::to_string(mine.threads));
  prefer("MKL_NUM_THREADS", std::to_string(mine.threads));
  if (mine.gpu >= 0) prefer("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  for (const auto& [name, value] : mine.environment) prefer(name, value);

  std::vector<std::string> entries;
  for (const auto& [name, value] : set) entries.push_back(name + "=" + value);
  return environment_without([&](const std::string& name) { return set.contains(name); }, std::move(entries));
}

std::vector<std::string> guard_environment(const std::function<bool(const std::string&)>& backend_hides,
                                           const GuardSettings& settings) {
  const auto hides = [&](const std::string& name) {
    return backend_hides(name) || name.starts_with("TRIREME_RANK") || name.starts_with("TRIREME_NUM_RANKS") ||
           name.starts_with("TRIREME_LOCAL_RANK") || name == "TRIREME_RUN_DIR" || name == "TRIREME_SECRET" ||
           name == "TRIREME_SUPERVISOR";
  };
  return environment_without(hides,
                             {"TRIREME_RUN_DIR=" + settings.run_dir, "TRIREME_SECRET=" + settings.secret,
                              "TRIREME_SUPERVISOR=" + settings.supervisor});
}

}  // namespace trireme::process
