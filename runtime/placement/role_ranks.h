// Which ranks have which role. Torch-free, MPI-free: arithmetic on rank numbers.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/placement/mesh.h"

namespace trireme::placement {

enum class Role { actor, critic, reference, rollout, reward_model };
inline constexpr std::array<Role, 5> kRoles{Role::actor, Role::critic, Role::reference, Role::rollout,
                                            Role::reward_model};
const char* to_string(Role role);

/// "0-3,6" -> {0,1,2,3,6}, ascending; "" -> all of num_ranks. Throws invalid_config (with `where`) on bad
/// syntax, repeats, and ranks that do not exist.
std::vector<int> parse_ranks(const std::string& text, int num_ranks, const std::string& where);

struct RoleRanks {
  // Empty: the role does not exist in this run.
  std::vector<int> actor, critic, reference, rollout, reward_model;

  /// How the ranks of one replica share a role's model.
  struct Axes {
    ReplicaAxes actor, critic, reference, rollout, reward_model;
    const ReplicaAxes& of(Role role) const;
  } axes;

  const std::vector<int>& of(Role role) const;
  /// Throws internal unless the axes divide the role's ranks.
  Mesh mesh(Role role) const { return Mesh::of(of(role), axes.of(role)); }
  bool has(Role role, int rank) const;
  /// Those with any role, ascending.
  std::vector<int> all() const;
  /// The actor's, the critic's and the reference's, ascending.
  std::vector<int> training() const;
  /// The others of all(), ascending: rollout's where it is apart, and a reward model's beside it.
  std::vector<int> generating() const;
  /// Whether there is rollout, and none of its ranks is one of those.
  bool rollout_is_apart() const;
  /// All roles on the same ranks.
  bool colocated() const;
};

inline constexpr const char* kWeights = "weights";
inline constexpr const char* kTraining = "training";
inline constexpr const char* kGenerating = "generating";

struct Group {
  std::string name;        // "actor+rollout", "actor.tp", ...
  std::vector<int> ranks;  // ascending
};

/// The communicators of a run beside the world's, in the order in which they are opened: of each role all its
/// ranks, its ranks along each axis, and those that hold the same weights (dp.cp); where rollout is apart, all
/// training ranks and all others; at last all ranks with a role, over whom weights go from role to role. Groups
/// of the same ranks are one, under the first name.
std::vector<Group> groups_of(const RoleRanks& roles);

}  // namespace trireme::placement
