#include "runtime/placement/role_ranks.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme::placement {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int> number(std::string_view text) {
  text = trimmed(text);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// One item, "3" or "0-3"; adds its ranks, or says what is wrong.
void parse_item(std::string_view item, int num_ranks, const std::string& where, std::vector<int>& ranks,
                Mistakes& mistakes) {
  const size_t dash = item.find('-');
  const auto first = number(item.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
  if (!first || !last) {
    mistakes.add(where,
                 fmt::format("'{}' is no rank and no range of ranks; write them like \"0-3,6\"", item));
  } else if (*first > *last) {
    mistakes.add(where, fmt::format("the range '{}' runs backwards; write \"{}-{}\"", item, *last, *first));
  } else if (*last >= num_ranks) {
    mistakes.add(where, fmt::format("'{}' names rank {}, but the run has {} rank{} (0{})", item, *last,
                                    num_ranks, num_ranks == 1 ? "" : "s",
                                    num_ranks == 1 ? "" : fmt::format("-{}", num_ranks - 1)));
  } else {
    for (int rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
  }
}

}  // namespace

const char* to_string(Role role) {
  switch (role) {
    case Role::actor:
      return "actor";
    case Role::critic:
      return "critic";
    case Role::reference:
      return "reference";
    case Role::rollout:
      return "rollout";
    case Role::reward_model:
      return "reward_model";
  }
  return "unknown role";
}

std::vector<int> parse_ranks(const std::string& text, int num_ranks, const std::string& where) {
  std::vector<int> ranks;
  if (trimmed(text).empty()) {
    ranks.resize(num_ranks);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  Mistakes mistakes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parse_item(trimmed(std::string_view(text).substr(begin, end - begin)), num_ranks, where, ranks, mistakes);
    begin = end + 1;
  }
  std::sort(ranks.begin(), ranks.end());
  for (size_t i = 1; i < ranks.size(); ++i)
    if (ranks[i] == ranks[i - 1] && (i == 1 || ranks[i - 2] != ranks[i]))
      mistakes.add(where, fmt::format("rank {} is named twice in \"{}\"", ranks[i], text));
  mistakes.throw_if_any(fmt::format("\"{}\" does not say which ranks", text));
  return ranks;
}

const ReplicaAxes& RoleRanks::Axes::of(Role role) const {
  switch (role) {
    case Role::actor:
      return actor;
    case Role::critic:
      return critic;
    case Role::reference:
      return reference;
    case Role::reward_model:
      return reward_model;
    case Role::rollout:
      break;
  }
  return rollout;
}

const std::vector<int>& RoleRanks::of(Role role) const {
  switch (role) {
    case Role::actor:
      return actor;
    case Role::critic:
      return critic;
    case Role::reference:
      return reference;
    case Role::reward_model:
      return reward_model;
    case Role::rollout:
      break;
  }
  return rollout;
}

bool RoleRanks::has(Role role, int rank) const {
  const std::vector<int>& ranks = of(role);
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool RoleRanks::colocated() const {
  const std::vector<int>* first = nullptr;
  for (const Role role : kRoles) {
    const std::vector<int>& ranks = of(role);
    if (ranks.empty()) continue;
    if (first && *first != ranks) return false;
    first = &ranks;
  }
  return true;
}

namespace {

// The roles that live on exactly these ranks, in fixed order: "actor+rollout".
std::string name_of(const RoleRanks& roles, const std::vector<int>& ranks) {
  std::string name;
  for (const Role role : kRoles)
    if (roles.of(role) == ranks) name += (name.empty() ? "" : "+") + std::string(to_string(role));
  return name;
}

}  // namespace

std::vector<int> RoleRanks::all() const {
  std::set<int> ranks;
  for (const Role role : kRoles) ranks.insert(of(role).begin(), of(role).end());
  return {ranks.begin(), ranks.end()};
}

std::vector<int> RoleRanks::training() const {
  std::set<int> ranks;
  for (const Role role : {Role::actor, Role::critic, Role::reference})
    ranks.insert(of(role).begin(), of(role).end());
  return {ranks.begin(), ranks.end()};
}

std::vector<int> RoleRanks::generating() const {
  const std::vector<int> everybody = all(), others = training();
  std::vector<int> ranks;
  std::set_difference(everybody.begin(), everybody.end(), others.begin(), others.end(), std::back_inserter(ranks));
  return ranks;
}

bool RoleRanks::rollout_is_apart() const {
  const std::vector<int> others = training();
  return !rollout.empty() && std::none_of(rollout.begin(), rollout.end(), [&](int rank) {
    return std::binary_search(others.begin(), others.end(), rank);
  });
}

std::vector<Group> groups_of(const RoleRanks& roles) {
  std::vector<Group> groups;
  const auto add = [&](std::string name, std::vector<int> ranks) {
    const bool known =
        std::any_of(groups.begin(), groups.end(), [&](const Group& group) { return group.ranks == ranks; });
    if (!known) groups.push_back({std::move(name), std::move(ranks)});
  };
  for (const Role role : kRoles) {
    const Mesh mesh = roles.mesh(role);
    if (mesh.ranks.empty()) continue;
    add(name_of(roles, mesh.ranks), mesh.ranks);
    const std::string name = to_string(role);
    // From the first rank of each: where the axis begins.
    const auto add_each = [&](const std::string& suffix, const auto& group_of) {
      for (const int rank : mesh.ranks)
        if (std::vector<int> group = group_of(*mesh.find(rank)); group.front() == rank)
          add(name + suffix, std::move(group));
    };
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::pp, Axis::dp}) {
      if (mesh.size(axis) == 1 && (axis == Axis::cp || axis == Axis::pp)) continue;
      add_each(fmt::format(".{}", to_string(axis)),
               [&](const Mesh::Coordinates& at) { return mesh.along(axis, at); });
    }
    add_each(".dp.cp", [&](const Mesh::Coordinates& at) { return mesh.same_weights(at); });
  }
  if (roles.rollout_is_apart()) {
    add(kTraining, roles.training());
    add(kGenerating, roles.generating());
  }
  add(kWeights, roles.all());
  return groups;
}

}  // namespace trireme::placement
