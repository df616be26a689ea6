#include "launcher/commands/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/topology/cpu_list.h"
#include "trainer/config/rank_list.h"

namespace trireme::commands {
namespace {

std::string roles_of(int rank, const config::PlacementConfig& placement) {
  const std::array<std::pair<const char*, const std::string*>, 3> roles{
      {{"actor", &placement.actor}, {"reference", &placement.reference}, {"rollout", &placement.rollout}}};
  std::string text;
  for (const auto& [name, written] : roles) {
    const auto ranks = config::read_ranks(*written).ranks;
    if (!ranks.empty() && std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
    text += text.empty() ? name : fmt::format(", {}", name);
  }
  return text;
}

}  // namespace

std::string plan_table(const plan::LaunchPlan& plan, const config::RunConfig& config) {
  std::vector<std::array<std::string, 7>> rows{{"rank", "host", "cpus", "threads", "gpu", "port", "roles"}};
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& r = plan.ranks[rank];
    const std::string gpu = r.gpu < 0 ? "-" : fmt::format("{} ({})", r.gpu, r.gpu_bus_id);
    const std::string node = r.memory_node < 0 ? "" : fmt::format(" (node {})", r.memory_node);
    rows.push_back({std::to_string(rank), r.host, topology::format_cpu_list(r.cpus) + node,
                    std::to_string(r.threads), gpu, r.port.empty() ? "-" : r.port,
                    roles_of(static_cast<int>(rank), config.placement)});
  }
  std::array<size_t, 7> widths{};
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace trireme::commands
