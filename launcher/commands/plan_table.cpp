#include "launcher/commands/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/topology/cpu_list.h"
#include "trainer/config/roles.h"

namespace trireme::commands {
namespace {

using placement::Role;

std::string names_of(const placement::RoleRanks& roles, int rank) {
  std::string text;
  for (const Role role : placement::kRoles)
    if (roles.has(role, rank))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", placement::to_string(role));
  return text;
}

std::string list(const std::vector<int>& ranks) {
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  return topology::format_cpu_list(sorted);
}

// Who does what on which ranks, and which of them speak to each other.
std::string roles_and_groups(const config::RunConfig& config, const placement::RoleRanks& roles) {
  std::string text = "\nroles\n";
  for (const Role role : placement::kRoles) {
    const placement::Mesh mesh = roles.mesh(role);
    if (mesh.ranks.empty()) continue;
    const int64_t zero = role == Role::actor    ? config.parallel.actor.zero_stage
                         : role == Role::critic ? config.parallel.critic.zero_stage
                                                : 0;
    text += fmt::format("  {:<10} ranks {:<12} {}{}\n", placement::to_string(role), list(mesh.ranks),
                        mesh.text(), zero > 0 && mesh.dp * mesh.cp > 1 ? fmt::format(", ZeRO {}", zero) : "");
  }
  text += "\ncommunicators\n";
  for (const placement::Group& group : placement::groups_of(roles))
    if (group.ranks.size() > 1) text += fmt::format("  {:<28} {}\n", group.name, list(group.ranks));
  return text;
}

}  // namespace

std::string plan_table(const plan::LaunchPlan& plan, const config::RunConfig& config) {
  std::vector<std::array<std::string, 7>> rows{{"rank", "host", "cpus", "threads", "gpu", "port", "roles"}};
  const placement::RoleRanks roles = config::roles_of(config, static_cast<int>(plan.ranks.size()));
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& r = plan.ranks[rank];
    const std::string gpu = r.gpu < 0 ? "-" : fmt::format("{} ({})", r.gpu, r.gpu_bus_id);
    const std::string node = r.memory_node < 0 ? "" : fmt::format(" (node {})", r.memory_node);
    rows.push_back({std::to_string(rank), r.host, topology::format_cpu_list(r.cpus) + node,
                    std::to_string(r.threads), gpu, r.port.empty() ? "-" : r.port,
                    names_of(roles, static_cast<int>(rank))});
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
  if (plan.ranks.size() > 1) text += roles_and_groups(config, roles);
  return text;
}

}  // namespace trireme::commands
