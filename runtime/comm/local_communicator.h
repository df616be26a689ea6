// Threads of one process as ranks: the communicator of tests, and of a run with one rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme::comm {

/// A group of `num_ranks` ranks over host memory. Each rank's communicator is used by one thread at a time.
/// A mismatch between ranks is an internal error on all of them, and ends the world; abort() on one rank ends
/// the operations of all.
class LocalWorld {
 public:
  explicit LocalWorld(int num_ranks, const std::string& name = "world");
  ~LocalWorld();

  int size() const;
  /// Lives as long as the world.
  Communicator& communicator(int rank);

  /// Runs `body` once per rank, each on its own thread, and returns when all have ended. If a body throws,
  /// the world is aborted, so that nobody waits for it, and the first error that is not its mere consequence
  /// (peer_failed) is thrown.
  static void run(int num_ranks, const std::function<void(Communicator&)>& body);

 private:
  struct Meeting;
  class Member;
  std::shared_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace trireme::comm
