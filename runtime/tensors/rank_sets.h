// Sets of ranks, each kept once and known by its number. A model of 70 billion elements on hundreds of ranks
// has few different sets of holders, so what moves is worked out per set and not per pair of ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace trireme::tensors {

class RankSets {
 public:
  /// The number of the set of `ranks` (any order, without repeats): 0, 1, ... in order of first use.
  int number(std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    const auto [found, is_new] = numbers_.emplace(std::move(ranks), static_cast<int>(sets_.size()));
    if (is_new) sets_.push_back(&found->first);
    return found->second;
  }
  /// Ascending.
  const std::vector<int>& ranks(int number) const { return *sets_[number]; }
  int size() const { return static_cast<int>(sets_.size()); }

 private:
  std::map<std::vector<int>, int> numbers_;
  std::vector<const std::vector<int>*> sets_;  // into numbers_, whose nodes stay where they are
};

}  // namespace trireme::tensors
