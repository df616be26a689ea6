// Layouts and reshards worked out the slow way: element by element, with nothing of the code under test but
// the structures that say what is asked for. An element's name is its number in the model, counted along the
// list of tensors, row-major; -1 is padding.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/tensors/reshard_plan.h"

namespace trireme::tensors::oracle {

inline int64_t numel(const TensorSpec& tensor) {
  int64_t count = 1;
  for (const int64_t size : tensor.dims) count *= size;
  return count;
}

// Which indices of the split dim tp rank t owns: units are dealt like cards, then everybody's stand together.
inline std::vector<bool> owned(const TensorSpec& tensor, const Split& split, int tp, int t) {
  const int64_t size = tensor.dims[split.dim];
  std::vector<int> unit_of(size);
  int units = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (i > 0 && i % split.unit == 0) ++units;
    unit_of[i] = units;
  }
  ++units;
  std::vector<int> owner;  // of each unit, where every unit has one
  std::vector<int> hand(tp);
  for (int unit = 0; unit < units; ++unit) ++hand[unit % tp];
  for (int rank = 0; rank < tp; ++rank) owner.insert(owner.end(), hand[rank], rank);
  std::vector<bool> result(size);
  for (int64_t i = 0; i < size; ++i)
    result[i] =
        split.fit == Fit::repeat && units < tp ? t * units / tp == unit_of[i] : owner[unit_of[i]] == t;
  return result;
}

// Who stands where: rank -> (d of dp x cp, p, t), counting the list of ranks off, tp first.
inline std::map<int, std::tuple<int, int, int>> places(const Layout& layout) {
  std::map<int, std::tuple<int, int, int>> all;
  size_t next = 0;
  for (int d = 0; d < layout.mesh.dp; ++d)
    for (int p = 0; p < layout.mesh.pp; ++p)
      for (int c = 0; c < layout.mesh.cp; ++c)
        for (int t = 0; t < layout.mesh.tp; ++t)
          all[layout.mesh.ranks.at(next++)] = {d * layout.mesh.cp + c, p, t};
  return all;
}

// What rank (d, p, t) stores of each block, in order.
inline std::vector<std::vector<int64_t>> memory(const std::vector<TensorSpec>& tensors, const Layout& layout,
                                                int d, int p, int t) {
  const int copies = layout.mesh.dp * layout.mesh.cp;
  std::vector<std::vector<int64_t>> blocks(tensors.empty() ? 0 : tensors.back().block + 1);
  int64_t base = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    const Split& split = layout.splits[i];
    auto& line = blocks[tensor.block];
    while (!tensor.joins_previous && static_cast<int64_t>(line.size()) % layout.alignment != 0)
      line.push_back(-1);
    if (split.dim == Split::kWhole && split.owner != -1 && split.owner != t) {
      base += numel(tensor);
      continue;
    }
    std::vector<bool> mine;
    int64_t inner = 1;
    if (split.dim != Split::kWhole) {
      mine = owned(tensor, split, layout.mesh.tp, t);
      for (size_t dim = split.dim + 1; dim < tensor.dims.size(); ++dim) inner *= tensor.dims[dim];
    }
    for (int64_t e = 0; e < numel(tensor); ++e)
      if (mine.empty() || mine[e / inner % tensor.dims[split.dim]]) line.push_back(base + e);
    base += numel(tensor);
  }
  for (auto& line : blocks) {
    if (!layout.zero) {
      while (static_cast<int64_t>(line.size()) % layout.alignment != 0) line.push_back(-1);
      continue;
    }
    size_t cut = 0;  // the shortest that is enough
    while (cut * copies < line.size() || static_cast<int64_t>(cut) % layout.alignment != 0) ++cut;
    line.resize(cut * copies, -1);
    line = std::vector<int64_t>(line.begin() + cut * d, line.begin() + cut * (d + 1));
  }
  if (!layout.blocks_of_stages.empty())
    for (int b = 0; b < static_cast<int>(blocks.size()); ++b) {
      const std::vector<int>& own = layout.blocks_of_stages.at(p);
      if (std::find(own.begin(), own.end(), b) == own.end()) blocks[b].clear();
    }
  return blocks;
}

// The same by rank of the world; nothing for ranks without the role.
inline std::vector<std::vector<std::vector<int64_t>>> memories(const std::vector<TensorSpec>& tensors,
                                                               const Layout& layout, int num_ranks) {
  std::vector<std::vector<std::vector<int64_t>>> all(num_ranks);
  for (const auto& [rank, place] : places(layout)) {
    const auto [d, p, t] = place;
    all[rank] = memory(tensors, layout, d, p, t);
  }
  return all;
}

inline std::set<int64_t> elements(const std::vector<std::vector<int64_t>>& blocks) {
  std::set<int64_t> all;
  for (const auto& block : blocks) all.insert(block.begin(), block.end());
  all.erase(-1);
  return all;
}

struct Bounds {
  int64_t moved = 0, crossed = 0, kept = 0;  // elements
};

inline Bounds bounds(const Reshard& reshard) {
  const int num_ranks = static_cast<int>(reshard.node_of.size());
  const auto from = memories(reshard.tensors, reshard.from, num_ranks);
  const auto to = memories(reshard.tensors, reshard.to, num_ranks);
  Bounds result;
  std::map<int, std::set<int64_t>> held_in, lacked_in;  // by node
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto held = elements(from[rank]);
    held_in[reshard.node_of[rank]].insert(held.begin(), held.end());
    for (const int64_t e : elements(to[rank])) {
      if (held.contains(e)) {
        ++result.kept;
      } else {
        ++result.moved;
        lacked_in[reshard.node_of[rank]].insert(e);
      }
    }
  }
  for (const auto& [node, lacked] : lacked_in)
    for (const int64_t e : lacked) result.crossed += held_in[node].contains(e) ? 0 : 1;
  return result;
}

}  // namespace trireme::tensors::oracle
