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

}  // namespace trireme::process
