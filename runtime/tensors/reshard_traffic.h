// What a reshard costs, before it is run: bytes of every rank and node, beside what no plan could go below.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tensors/reshard_plan.h"

namespace trireme::tensors {

struct Traffic {
  struct Bytes {
    int64_t sent = 0, received = 0;
  };
  std::vector<Bytes> inside;  // of each rank: to and from ranks of its node
  std::vector<Bytes> across;  // of each rank: to and from ranks of other nodes
  std::vector<Bytes> nodes;   // of each node: to and from other nodes
  std::vector<int64_t> kept;  // of each rank: held already, in whatever layout; shared or copied on the spot

  /// All that moves, and its bound: what destinations want and lack, summed over destinations.
  int64_t moved = 0, moved_bound = 0;
  /// What moves between nodes, and its bound: what the ranks of a node together want and lack, over nodes.
  int64_t crossed = 0, crossed_bound = 0;
  /// The most that one rank sends to its node and to others; and what the most would be in the best balance
  /// that the holders allow (a lower bound of it: what only some ranks can send, shared out evenly among
  /// those).
  int64_t largest_inside = 0, largest_inside_bound = 0;
  int64_t largest_across = 0, largest_across_bound = 0;
  int num_rounds = 0;
  /// The busiest rank of each round, by what it sends to or receives from other nodes (or inside its own),
  /// summed over rounds: how long the links work if every round waits for its slowest. The busiest rank of
  /// all, by its bytes in all rounds, is the least that this can be.
  int64_t across_by_rounds = 0, inside_by_rounds = 0;

  /// A few lines for people: ranks, nodes, totals, each beside its bound.
  std::string table() const;
};

/// Local. Needs a Reshard without mistakes.
Traffic traffic_of(const Reshard& reshard);

}  // namespace trireme::tensors
