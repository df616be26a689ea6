// Which ranks have which role. Torch-free, MPI-free: arithmetic on rank numbers.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/placement/mesh.h"

namespace trireme::placement {

enum class Role { actor, critic, reference, rollout };
inline constexpr std::array<Role, 4> kRoles{Role::actor, Role::critic, Role::reference, Role::rollout};
const char* to_string(Role role);

/// "0-3,6" -> {0,1,2,3,6}, ascending; "" -> all of num_ranks. Throws invalid_config (with `where`) on bad
/// syntax, repeats, and ranks that do not exist.
std::vector<int> parse_ranks(const std::string& text, int num_ranks, const std::string& where);

struct RoleRanks {
  std::vector<int> actor, critic, reference, rollout;  // empty: the role does not exist in this run

  /// How many ranks hold one replica of a role's model together.
  struct TensorParallelSizes {
    int actor = 1, critic = 1, reference = 1, rollout = 1;
    int of(Role role) const;
  } tp;

  const std::vector<int>& of(Role role) const;
  /// Throws internal unless tp divides the role's ranks.
  Mesh mesh(Role role) const { return Mesh::of(of(role), tp.of(role)); }
  bool has(Role role, int rank) const;
  /// All roles on the same ranks.
  bool colocated() const;
};

struct Group {
  std::string name;        // "actor+rollout", "actor.tp", ...
  std::vector<int> ranks;  // ascending
};

/// The communicators of a run beside the world's, in the order in which they are opened: of each role all its
/// ranks, its replicas (tp) and those that hold the same part of each (dp). Groups of the same ranks are one,
/// under the first name.
std::vector<Group> groups_of(const RoleRanks& roles);

}  // namespace trireme::placement
