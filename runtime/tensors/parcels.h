// What moves, before it is said how: the elements of a model in parcels, each held by one set of ranks in one
// layout and wanted by one set in another. Every element is in exactly one parcel.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensors/holdings.h"

namespace trireme::tensors {

struct Parcel {
  int holders = 0, wanters = 0;  // numbers in RankSets
  struct Part {
    int tensor = 0;
    Box box;
  };
  std::vector<Part> parts;  // in the order of the tensors; none overlaps another
  int64_t numel = 0;
};

/// How a pair of sets' elements of a block are cut into parcels. Sizes in elements.
struct ParcelSize {
  int64_t most = INT64_MAX;   // of one parcel
  int64_t least = INT64_MAX;  // what `layer` may not go below
  int64_t layer = INT64_MAX;  // of one parcel from each set of holders that feeds the same wanters
};

class Parcels {
 public:
  /// `from` and `to` are of the same tensors. The first three must outlive it.
  Parcels(const ShardMap& from, const ShardMap& to, RankSets& sets, const ParcelSize& size);

  /// The parcels of one block, in layers: first the first one of each pair, then the second ones. So wherever
  /// a round ends, all holders have been busy alike, and not the first ones alone.
  std::vector<Parcel> of_block(int block);

 private:
  class Filling;

  const ShardMap* from_;
  const ShardMap* to_;
  Holdings holders_, wanters_;
  ParcelSize size_;
};

}  // namespace trireme::tensors
