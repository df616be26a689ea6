// Random models, layouts and reshards, small enough to look at every element.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/tensors/reshard_plan.h"

namespace trireme::tensors {

class RandomLayouts {
 public:
  explicit RandomLayouts(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }

  std::vector<TensorSpec> tensors() {
    std::vector<TensorSpec> all;
    const int64_t count = 1 + below(7);
    int block = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0 && one_in(3)) ++block;
      TensorSpec& tensor = all.emplace_back();
      tensor.name = "t" + std::to_string(i);
      tensor.block = block;
      tensor.joins_previous = i > 0 && all[i - 1].block == block && one_in(2);
      for (int64_t d = one_in(20) ? 0 : 1 + below(3); d > 0; --d)
        tensor.dims.push_back(1 + below(one_in(3) ? 12 : 6));
    }
    return all;
  }

  // On some of the ranks, in any order.
  Layout layout(const std::vector<TensorSpec>& tensors, int num_ranks, const std::string& role) {
    Layout layout;
    layout.role = role;
    layout.dtype = comm::DType::i32;
    layout.mesh.tp = 1 + static_cast<int>(below(std::min(4, num_ranks)));
    const auto axis = [&](int64_t most) {
      return most < 2 || one_in(2) ? 1 : 1 + static_cast<int>(below(most));
    };
    layout.mesh.pp = axis(num_ranks / layout.mesh.tp);
    layout.mesh.cp = axis(num_ranks / (layout.mesh.tp * layout.mesh.pp));
    layout.mesh.dp =
        1 + static_cast<int>(below(num_ranks / (layout.mesh.tp * layout.mesh.pp * layout.mesh.cp)));
    std::vector<int> ranks(num_ranks);
    std::iota(ranks.begin(), ranks.end(), 0);
    if (one_in(2)) std::shuffle(ranks.begin(), ranks.end(), random_);
    const int64_t needed = layout.mesh.dp * layout.mesh.pp * layout.mesh.cp * layout.mesh.tp,
                  first = below(num_ranks - needed + 1);
    layout.mesh.ranks.assign(ranks.begin() + first, ranks.begin() + first + needed);
    layout.zero = one_in(2);
    layout.alignment = one_in(2) ? 1 : 1 + below(5);
    for (const TensorSpec& tensor : tensors) layout.splits.push_back(split(tensor, layout.mesh.tp));
    if (layout.mesh.pp > 1) layout.blocks_of_stages = stages(tensors.back().block + 1, layout.mesh.pp);
    return layout;
  }

  std::vector<int> nodes(int num_ranks) {
    std::vector<int> node_of(num_ranks);
    const int64_t num_nodes = 1 + below(num_ranks);
    for (int rank = 0; rank < num_ranks; ++rank)
      node_of[rank] = static_cast<int>(one_in(3) ? below(num_nodes) : rank * num_nodes / num_ranks);
    return node_of;
  }

  ReshardOptions options() {
    ReshardOptions options;
    options.parcel_bytes = 16 + below(200);
    options.staging_bytes = 4 * (options.parcel_bytes + 16) + below(2000);
    options.relays = one_in(3) ? static_cast<int>(1 + below(3)) : 0;
    options.share = !one_in(4);
    return options;
  }

 private:
  // Every block on a stage, some on several; a stage may have none.
  std::vector<std::vector<int>> stages(int num_blocks, int pp) {
    std::vector<std::vector<int>> blocks(pp);
    for (int block = 0; block < num_blocks; ++block) {
      const int64_t first = below(pp), second = one_in(4) ? below(pp) : first;
      blocks[first].push_back(block);
      if (second != first) blocks[second].push_back(block);
    }
    return blocks;
  }

  Split split(const TensorSpec& tensor, int tp) {
    Split split;
    if (tensor.dims.empty() || one_in(4)) {
      if (one_in(3)) split.owner = static_cast<int>(below(tp));
      return split;
    }
    split.dim = static_cast<int>(below(static_cast<int64_t>(tensor.dims.size())));
    const int64_t size = tensor.dims[split.dim];
    split.unit = one_in(2) ? 1 : 1 + below(size);
    const int64_t units = size / split.unit;
    if (size % split.unit != 0) {
      split.fit = Fit::uneven;
    } else if (units % tp == 0) {
      split.fit = static_cast<Fit>(below(3));
    } else {
      split.fit = tp % units == 0 ? Fit::repeat : Fit::uneven;
    }
    return split;
  }

  std::mt19937_64 random_;
};

}  // namespace trireme::tensors
