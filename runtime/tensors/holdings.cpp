#include "runtime/tensors/holdings.h"

#include <algorithm>

namespace trireme::tensors {

std::vector<SliceHoldings> Holdings::of(int tensor) {
  const int tp = map_->layout().mesh.tp;
  std::vector<SliceHoldings> result;
  for (int first = 0, last = 0; first < tp; first = last) {
    const Box& slice = map_->slice(first, tensor);
    // Ranks that repeat a slice are neighbours.
    for (last = first + 1; last < tp && map_->slice(last, tensor) == slice;) ++last;
    if (slice.numel() == 0) continue;
    SliceHoldings& holdings = result.emplace_back();
    holdings.slice = slice;
    if (map_->layout().zero) {
      cut(tensor, first, last, holdings);
    } else {
      holdings.stretches.push_back(
          {{0, slice.numel()}, all_of(map_->stages_of(map_->tensors()[tensor].block), first, last)});
    }
  }
  return result;
}

int Holdings::all_of(const std::vector<int>& stages, int first_t, int last_t) {
  const auto [found, is_new] = known_.emplace(std::tuple{stages, first_t, last_t}, 0);
  if (is_new) {
    std::vector<int> ranks;
    for (const int p : stages)
      for (int d = 0; d < map_->num_copies(); ++d)
        for (int t = first_t; t < last_t; ++t) ranks.push_back(map_->rank({d, p, t}));
    found->second = sets_->number(std::move(ranks));
  }
  return found->second;
}

// tp ranks that repeat a slice may be cut at different places, where other slices of the block differ.
void Holdings::cut(int tensor, int first_t, int last_t, SliceHoldings& holdings) {
  struct Held {
    Interval interval;
    int rank;
  };
  std::vector<Held> all;
  std::vector<int64_t> cuts;
  const std::vector<int>& stages = map_->stages_of(map_->tensors()[tensor].block);
  for (int t = first_t; t < last_t; ++t)
    for (int d = 0; d < map_->num_copies(); ++d) {
      const Interval interval = map_->held(d, t, tensor);
      if (interval.numel() == 0) continue;
      for (const int p : stages) all.push_back({interval, map_->rank({d, p, t})});
      cuts.push_back(interval.begin);
      cuts.push_back(interval.end);
    }
  std::sort(all.begin(), all.end(),
            [](const Held& a, const Held& b) { return a.interval.begin < b.interval.begin; });
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Held> open;  // those that hold the stretch that is looked at
  auto next = all.begin();
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::erase_if(open, [&](const Held& held) { return held.interval.end <= cuts[i]; });
    for (; next != all.end() && next->interval.begin == cuts[i]; ++next) open.push_back(*next);
    std::vector<int> ranks;
    for (const Held& held : open) ranks.push_back(held.rank);
    holdings.stretches.push_back({{cuts[i], cuts[i + 1]}, sets_->number(std::move(ranks))});
  }
}

}  // namespace trireme::tensors
