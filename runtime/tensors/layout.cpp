#include "runtime/tensors/layout.h"

#include <algorithm>

namespace trireme::tensors {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int64_t round_up(int64_t a, int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace

std::optional<int> find_tensor(const std::vector<TensorSpec>& tensors, const std::string& name) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& tied = tensors[i].tied_names;
    if (tensors[i].name == name || std::find(tied.begin(), tied.end(), name) != tied.end())
      return static_cast<int>(i);
  }
  return std::nullopt;
}

Box slice_of(const TensorSpec& tensor, const Split& split, int tp, int t) {
  Box slice = whole(tensor.dims);
  if (split.dim == Split::kWhole) {
    if (split.owner != Split::kEverybody && split.owner != t) slice.end[0] = slice.begin[0];
    return slice;
  }
  const int64_t size = tensor.dims[split.dim];
  const int64_t units = ceil_div(size, split.unit);
  int64_t first = 0, last = 0;
  if (split.fit == Fit::repeat && units < tp) {
    first = t / (tp / units);
    last = first + 1;
  } else {
    const int64_t each = units / tp, more = units % tp;
    first = t * each + std::min<int64_t>(t, more);
    last = first + each + (t < more ? 1 : 0);
  }
  slice.begin[split.dim] = std::min(size, first * split.unit);
  slice.end[split.dim] = std::min(size, last * split.unit);
  return slice;
}

ShardMap::ShardMap(const std::vector<TensorSpec>& tensors, const Layout& layout)
    : tensors_(&tensors), layout_(&layout) {
  num_blocks_ = tensors.empty() ? 0 : tensors.back().block + 1;
  const Mesh& mesh = layout.mesh;
  if (layout.blocks_of_stages.empty()) stages_of_.assign(num_blocks_, {0});
  stages_of_.resize(num_blocks_);
  for (size_t p = 0; p < layout.blocks_of_stages.size(); ++p)
    for (const int block : layout.blocks_of_stages[p]) stages_of_[block].push_back(static_cast<int>(p));
  for (int t = 0; t < mesh.tp; ++t) {
    Column& column = columns_.emplace_back();
    column.stored.resize(num_blocks_);
    for (size_t i = 0; i < tensors.size(); ++i) {
      int64_t& line = column.stored[tensors[i].block];
      if (!tensors[i].joins_previous) line = round_up(line, layout.alignment);
      column.slices.push_back(slice_of(tensors[i], layout.splits[i], mesh.tp, t));
      column.offsets.push_back(line);
      line += column.slices.back().numel();
    }
    for (int64_t& line : column.stored)
      line = round_up(layout.zero ? ceil_div(line, num_copies()) : line, layout.alignment);
  }
  for (const int rank : mesh.ranks) {
    const auto at = *mesh.find(rank);
    by_rank_.push_back({rank, {at.d * mesh.cp + at.c, at.p, at.t}});
  }
  std::sort(by_rank_.begin(), by_rank_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

std::optional<ShardMap::Coordinates> ShardMap::find(int rank) const {
  const auto found = std::lower_bound(by_rank_.begin(), by_rank_.end(), rank,
                                      [](const auto& entry, int wanted) { return entry.first < wanted; });
  if (found == by_rank_.end() || found->first != rank) return std::nullopt;
  return found->second;
}

int ShardMap::rank(const Coordinates& at) const {
  const int cp = layout_->mesh.cp;
  return layout_->mesh.rank({at.d / cp, at.p, at.d % cp, at.t});
}

bool ShardMap::holds(int p, int block) const {
  const std::vector<int>& stages = stages_of_[block];
  return std::find(stages.begin(), stages.end(), p) != stages.end();
}

Interval ShardMap::held(int d, int t, int tensor) const {
  const Column& column = columns_[t];
  const int64_t numel = column.slices[tensor].numel();
  if (!layout_->zero) return {0, numel};
  const int64_t stored = column.stored[(*tensors_)[tensor].block];
  const int64_t from = d * stored - column.offsets[tensor];  // where this rank's stretch begins, in the slice
  const int64_t begin = std::clamp<int64_t>(from, 0, numel);
  return {begin, std::clamp<int64_t>(from + stored, begin, numel)};
}

Strided ShardMap::place(int d, int t, int tensor, const Box& box) const {
  const Column& column = columns_[t];
  Strided where = strided(box, column.slices[tensor]);
  where.offset += column.offsets[tensor];
  if (layout_->zero) where.offset -= d * column.stored[(*tensors_)[tensor].block];
  return where;
}

}  // namespace trireme::tensors
