// Groups on their way to training before their batch is whole (rollout.stream): rollout sends each mini-batch
// as soon as it is made and judged, and goes on; training takes one after the other, in the order of their
// prompts. What a mini-batch holds does not depend on who finished first, so results don't either.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "trainer/steps/group.h"

namespace trireme::steps {

class GroupStream {
 public:
  /// Parts of `part_size` ids each, the last one of what is left of `batch_size`. Where rollout is apart. Local.
  GroupStream(session::Session& session, int64_t batch_size, int64_t part_size);

  int64_t num_parts() const { return (batch_size_ + part_size_ - 1) / part_size_; }
  int64_t part_size() const { return part_size_; }

  /// This replica's groups of the next part of a batch, of which there may be none; does not wait. On the rank
  /// that speaks for a rollout replica, for each part in turn.
  void send(std::span<const Group> groups);
  /// Waits until training has taken all that was sent. On the same rank.
  void finish();

  /// The next part's groups, shared out over the replicas of `to`, in ascending id; waits for them.
  /// Collective over: training.
  std::vector<Group> receive(placement::Role to);

 private:
  struct Message {
    int64_t size = 0;
    std::string bytes;
    std::vector<comm::WorkHandle> under_way;  // ends before what it reads from
  };

  session::Session& session_;
  const int64_t batch_size_, part_size_;
  std::deque<Message> sent_;
};

}  // namespace trireme::steps
