// The ranks of one role as a grid: dp replicas of tp ranks each. tp is the inner axis, so the ranks of one
// replica are neighbours. Arithmetic on rank numbers.
#pragma once

#include <optional>
#include <vector>

namespace trireme::placement {

struct Mesh {
  int dp = 1, tp = 1;
  std::vector<int> ranks;  // of the world; (d, t) is ranks[d * tp + t]

  /// `tp` must divide the number of ranks; dp is what is left.
  static Mesh of(std::vector<int> ranks, int tp);

  int rank(int d, int t) const { return ranks[static_cast<size_t>(d) * tp + t]; }

  struct Coordinates {
    int d = 0, t = 0;
  };
  /// Where a rank of the world stands; empty if it is none of these.
  std::optional<Coordinates> find(int rank) const;

  /// The ranks that hold one replica together, and those that hold the same part of every replica.
  std::vector<int> replica(int d) const;
  std::vector<int> part(int t) const;
  /// All replicas, d ascending.
  std::vector<std::vector<int>> replicas() const;
};

}  // namespace trireme::placement
