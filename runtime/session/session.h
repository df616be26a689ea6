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
  const placement::RoleRanks& roles() const;
  bool has(placement::Role role) const;

  /// All ranks, host memory.
  comm::Communicator& world();
  /// This role's ranks; throws internal if this rank is not one of them.
  /// Roles on the same ranks share one communicator, named after all of them ("actor+rollout").
  comm::Communicator& group(placement::Role role);
  /// The ranks that hold this rank's replica of the role's model with it (tp), and those that hold the same
  /// part of every replica (dp). Likewise.
  comm::Communicator& tp(placement::Role role);
  comm::Communicator& dp(placement::Role role);
  /// Of a rank that has the role.
  placement::Mesh::Coordinates place_in(placement::Role role) const;

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
