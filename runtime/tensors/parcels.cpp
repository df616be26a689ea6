#include "runtime/tensors/parcels.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace trireme::tensors {
namespace {

// An element's place in a row-major slice.
int64_t index_in(const Box& slice, const std::array<int64_t, kMaxDims>& at) {
  int64_t index = 0;
  for (int d = 0; d < slice.num_dims; ++d) index = index * slice.extent(d) + (at[d] - slice.begin[d]);
  return index;
}

struct BoxedSlice {
  SliceHoldings holdings;
  std::vector<std::vector<Box>> boxes;  // of each stretch
};

std::vector<BoxedSlice> boxed(std::vector<SliceHoldings> all) {
  std::vector<BoxedSlice> result;
  for (SliceHoldings& holdings : all) {
    BoxedSlice& slice = result.emplace_back();
    for (const auto& stretch : holdings.stretches)
      append_interval(holdings.slice, stretch.interval.begin, stretch.interval.end,
                      slice.boxes.emplace_back());
    slice.holdings = std::move(holdings);
  }
  return result;
}

// The stretches of `holdings` that `box`, which lies within the slice, may touch.
std::pair<size_t, size_t> touched(const SliceHoldings& holdings, const Box& box) {
  auto last_element = box.end;
  for (int d = 0; d < box.num_dims; ++d) --last_element[d];
  const int64_t begin = index_in(holdings.slice, box.begin), last = index_in(holdings.slice, last_element);
  const auto& stretches = holdings.stretches;
  const auto after = [](int64_t index, const SliceHoldings::Stretch& s) { return index < s.interval.end; };
  const auto first = std::upper_bound(stretches.begin(), stretches.end(), begin, after);
  const auto end = std::upper_bound(first, stretches.end(), last, after) + 1;
  return {first - stretches.begin(), end - stretches.begin()};
}

// visit(holders, wanters, box) for the disjoint boxes that make up what two slices have in common.
template <typename Visit>
void for_each_common(const BoxedSlice& from, const BoxedSlice& to, Visit visit) {
  if (intersection(from.holdings.slice, to.holdings.slice).numel() == 0) return;
  for (size_t h = 0; h < from.boxes.size(); ++h)
    for (const Box& box : from.boxes[h]) {
      const Box common = intersection(box, to.holdings.slice);
      if (common.numel() == 0) continue;
      const auto [begin, end] = touched(to.holdings, common);
      for (size_t w = begin; w < end; ++w)
        for (const Box& wanted : to.boxes[w]) {
          const Box part = intersection(common, wanted);
          if (part.numel() > 0)
            visit(from.holdings.stretches[h].holders, to.holdings.stretches[w].holders, part);
        }
    }
}

}  // namespace

// Collects what each pair of sets has in common, then cuts it into parcels.
class Parcels::Filling {
 public:
  void add(int holders, int wanters, int tensor, const Box& box) {
    const uint64_t key = static_cast<uint64_t>(holders) << 32 | static_cast<uint32_t>(wanters);
    const auto [found, is_new] = index_.emplace(key, pairs_.size());
    if (is_new) {
      pairs_.push_back({holders, wanters, {}, 0});
      ++num_feeding_[wanters];
    }
    Parcel& all = pairs_[found->second];
    all.parts.push_back({tensor, box});
    all.numel += box.numel();
  }

  std::vector<Parcel> take(const ParcelSize& size) {
    std::vector<std::vector<Parcel>> cut;
    for (const Parcel& pair : pairs_) {
      const int64_t share = std::max(size.least, size.layer / num_feeding_[pair.wanters]);
      cut.push_back(cut_up(pair, std::min(size.most, share)));
    }
    std::vector<Parcel> all;
    for (size_t layer = 0, before = 1; all.size() != before; ++layer) {
      before = all.size();
      for (auto& parcels : cut)
        if (layer < parcels.size()) all.push_back(std::move(parcels[layer]));
    }
    return all;
  }

 private:
  static std::vector<Parcel> cut_up(const Parcel& pair, int64_t most) {
    std::vector<Parcel> parcels;
    const auto open = [&] { parcels.push_back({pair.holders, pair.wanters, {}, 0}); };
    std::vector<Box> boxes;
    for (const Parcel::Part& part : pair.parts) {
      const int64_t numel = part.box.numel(), row = numel / part.box.extent(0);
      for (int64_t begin = 0; begin < numel;) {
        if (parcels.empty() || parcels.back().numel == most) open();
        int64_t end = std::min(numel, begin + most - parcels.back().numel);
        if (end < numel) {
          // Between rows, so that a part stays one box; within a row only where a row is more than a parcel.
          const int64_t whole_rows = end / row * row;
          if (whole_rows > begin) {
            end = whole_rows;
          } else if (row <= most && parcels.back().numel > 0) {
            open();
            continue;
          }
        }
        boxes.clear();
        append_interval(part.box, begin, end, boxes);
        for (const Box& box : boxes) parcels.back().parts.push_back({part.tensor, box});
        parcels.back().numel += end - begin;
        begin = end;
      }
    }
    return parcels;
  }

  std::unordered_map<uint64_t, size_t> index_;
  std::vector<Parcel> pairs_;                 // uncut, in order of first use
  std::unordered_map<int, int> num_feeding_;  // by wanters: how many sets of holders
};

Parcels::Parcels(const ShardMap& from, const ShardMap& to, RankSets& sets, const ParcelSize& size)
    : from_(&from), to_(&to), holders_(from, sets), wanters_(to, sets), size_(size) {}

std::vector<Parcel> Parcels::of_block(int block) {
  Filling filling;
  const auto& tensors = from_->tensors();
  const auto by_block = [](const TensorSpec& tensor, int wanted) { return tensor.block < wanted; };
  const auto first = std::lower_bound(tensors.begin(), tensors.end(), block, by_block);
  for (auto it = first; it != tensors.end() && it->block == block; ++it) {
    const int tensor = static_cast<int>(it - tensors.begin());
    const auto held = boxed(holders_.of(tensor)), wanted = boxed(wanters_.of(tensor));
    for (const BoxedSlice& from : held)
      for (const BoxedSlice& to : wanted)
        for_each_common(from, to, [&](int holders, int wanters, const Box& box) {
          filling.add(holders, wanters, tensor, box);
        });
  }
  return filling.take(size_);
}

}  // namespace trireme::tensors
