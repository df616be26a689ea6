// One rank's place in the run: opened first, closed last. Initializes MPI (on the communication
// thread), opens the communicators of all roles in one order that is the same on every rank, and
// brings errors across ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/placement/role_ranks.h"
#include "runtime/plan/rank_env.h"

namespace trireme::session {

class Session {
 public:
  /// Collective over: all ranks of the job. `device`: where tensors lie; gpu opens NCCL communicators
  /// (MPI ones through pinned memory where ranks share a GPU), and this rank's GPU must be the current
  /// one. A run of one rank needs no MPI and starts none.
  /// Throws: mpi if the job holds another number of ranks than `env` says; cuda, nccl; invalid_config if
  /// `device` is gpu in a build without a GPU, or this rank's GPU is not the one that the launch plan gives
  /// it. CPUs or memory that are not as planned are warned of.
  Session(const plan::RankEnv& env, const placement::RoleRanks& roles, comm::Device device);
  /// Finalizes MPI (collective) unless an exception is being thrown through here or abort() was called: then
  /// it does not communicate, and the program must end with _exit().
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const;
  int num_ranks() const;
  const std::string& host() const;                // this rank's
  const std::vector<std::string>& hosts() const;  // of all ranks
  std::vector<int> nodes() const;                 // their hosts as numbers, 0, 1, ...
  const placement::RoleRanks& roles() const;
  bool has(placement::Role role) const;

  /// All ranks, host memory.
  comm::Communicator& world();
  /// This role's ranks; throws internal if this rank is not one of them.
  /// Roles on the same ranks share one communicator, named after all of them ("actor+rollout").
  comm::Communicator& group(placement::Role role);
  /// This rank and those that stand elsewhere on one axis only, in the axis's order. Likewise; pp and cp
  /// exist where they are more than one rank.
  comm::Communicator& along(placement::Axis axis, placement::Role role);
  comm::Communicator& tp(placement::Role role) { return along(placement::Axis::tp, role); }
  comm::Communicator& dp(placement::Role role) { return along(placement::Axis::dp, role); }
  /// Those that hold the same weights as this rank (dp and cp): gradients are summed over them. Likewise.
  comm::Communicator& same_weights(placement::Role role);
  /// All training ranks (RoleRanks::training), where rollout is apart. Likewise.
  comm::Communicator& training();
  /// All others with a role (RoleRanks::generating), where rollout is apart. Likewise.
  comm::Communicator& generating();
  /// All ranks with a role, where tensors lie: weights go over it from role to role.
  comm::Communicator& weights();
  /// Of a rank that has the role.
  placement::Mesh::Coordinates place_in(placement::Role role) const;
  /// Whether this rank tells what all ranks of its replica know, so that it is told once: the first one of
  /// the last pipeline stage, where losses are made.
  bool speaks_for_replica(placement::Role role) const;

  /// Any thread; local: all operations on this rank end in peer_failed, and the other ranks are told, as far
  /// as they can be reached. For a rank that failed where others wait for it.
  void abort(const std::string& why) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The libraries that ranks talk through, one a line: "MPI: Open MPI v4.1.4\nNCCL: not built in". Local.
std::string versions();

}  // namespace trireme::session
