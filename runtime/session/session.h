// One rank's place in the run: opened first, closed last. Initializes MPI (on the communication
// thread), opens the communicators of all roles in one order that is the same on every rank, and
// brings errors across ranks.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/placement/role_ranks.h"
#include "runtime/plan/rank_env.h"

namespace trireme::session {

class Session {
 public:
  /// Collective over: all ranks of the job. `device`: where tensors lie; gpu opens NCCL communicators
  /// (MPI ones through pinned memory where ranks share a GPU).
  Session(const plan::RankEnv& env, const placement::RoleRanks& roles, comm::Device device);
  ~Session();  // Finalizes MPI if no error is in flight, never communicates otherwise.

  int rank() const;
  int num_ranks() const;
  const std::string& host() const;
  const placement::RoleRanks& roles() const;
  bool has(placement::Role role) const;

  /// All ranks, host memory.
  comm::Communicator& world();
  /// This role's ranks; throws internal if this rank is not one of them.
  comm::Communicator& group(placement::Role role);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::session
