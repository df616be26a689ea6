// Who holds what: a layout turned around. For each tensor its different slices, and for each slice the
// stretches whose every element is held by the same ranks.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "runtime/tensors/layout.h"
#include "runtime/tensors/rank_sets.h"

namespace trireme::tensors {

struct SliceHoldings {
  Box slice;
  struct Stretch {
    Interval interval;  // of the slice, row-major
    int holders = 0;    // a number in RankSets
  };
  std::vector<Stretch> stretches;  // end to end: the whole slice
};

class Holdings {
 public:
  /// Both must outlive it.
  Holdings(const ShardMap& map, RankSets& sets) : map_(&map), sets_(&sets) {}

  /// The slices of `tensor` that are not empty; together they are the whole tensor, none overlaps another.
  std::vector<SliceHoldings> of(int tensor);

 private:
  void cut(int tensor, int first_t, int last_t, SliceHoldings& holdings);
  int all_of(const std::vector<int>& stages, int first_t, int last_t);

  const ShardMap* map_;
  RankSets* sets_;
  // (stages, first_t, last_t) -> the set of those stages' tp ranks [first_t, last_t), all d
  std::map<std::tuple<std::vector<int>, int, int>, int> known_;
};

}  // namespace trireme::tensors
