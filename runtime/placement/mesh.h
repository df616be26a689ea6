// The ranks of one role as a grid of four axes, dp x pp x cp x tp, the last one innermost. Arithmetic on rank
// numbers.
//
//   tp  shares out every matrix: sums over it twice a layer and pass, so its ranks are neighbours
//   cp  shares out a sequence's rows: keys and values go around once a layer
//   pp  shares out the layers: between two of its ranks go the rows of a micro-batch, once a pass
//   dp  shares out the batch: once a step the gradients are summed over it; its ranks may be far apart
//
// So what speaks most often lies closest together: within a node, where there are several.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme::placement {

enum class Axis { dp, pp, cp, tp };
const char* to_string(Axis axis);

/// How many ranks hold one replica of a model together, along each axis. dp is what is left.
struct ReplicaAxes {
  int pp = 1, cp = 1, tp = 1;
  int num_ranks() const { return pp * cp * tp; }
};

struct Mesh {
  int dp = 1, pp = 1, cp = 1, tp = 1;
  std::vector<int> ranks;  // of the world; (d, p, c, t) is ranks[((d * pp + p) * cp + c) * tp + t]

  /// The axes' product must divide the number of ranks.
  static Mesh of(std::vector<int> ranks, const ReplicaAxes& axes);

  struct Coordinates {
    int d = 0, p = 0, c = 0, t = 0;
    int& along(Axis axis);
  };
  int rank(const Coordinates& at) const;
  /// Where a rank of the world stands; empty if it is none of these.
  std::optional<Coordinates> find(int rank) const;
  int size(Axis axis) const;

  /// The ranks that hold one replica together.
  std::vector<int> replica(int d) const;
  /// All replicas, d ascending.
  std::vector<std::vector<int>> replicas() const;
  /// Those that stand elsewhere on one axis only, and (d, p, c, t) itself.
  std::vector<int> along(Axis axis, Coordinates at) const;
  /// Those that hold the same weights, along dp and cp, d outermost: gradients are summed over them.
  std::vector<int> same_weights(Coordinates at) const;

  /// "dp 2 x tp 2", with pp and cp where they are more than 1.
  std::string text() const;
};

}  // namespace trireme::placement
