#include "runtime/tensors/shard_reads.h"

#include <algorithm>
#include <limits>

#include "runtime/tensors/parcels.h"

namespace trireme::tensors {

std::vector<ShardRead> reads_of_tensors(const ShardMap& to, int rank) {
  std::vector<ShardRead> reads;
  const auto at = to.find(rank);
  if (!at) return reads;
  std::vector<Box> boxes;
  for (int tensor = 0; tensor < static_cast<int>(to.tensors().size()); ++tensor) {
    const TensorSpec& spec = to.tensors()[tensor];
    if (!to.holds(at->p, spec.block)) continue;
    const Interval held = to.held(at->d, at->t, tensor);
    boxes.clear();
    append_interval(to.slice(at->t, tensor), held.begin, held.end, boxes);
    for (const Box& box : boxes)
      reads.push_back(
          {tensor, 0, strided(box, whole(spec.dims)), spec.block, to.place(at->d, at->t, tensor, box)});
  }
  return reads;
}

int64_t block_begin(const ShardMap& saved, int p, int t, int block) {
  int64_t begin = 0;
  for (int b = 0; b < block; ++b) begin += saved.holds(p, b) ? saved.stored(t, b) : 0;
  return begin;
}

int64_t file_numel(const ShardMap& saved, int p, int t) {
  return block_begin(saved, p, t, saved.num_blocks());
}

std::vector<ShardRead> reads_of_shards(const ShardMap& saved, const ShardMap& to, int rank) {
  std::vector<ShardRead> reads;
  const auto reader = to.find(rank);
  if (!reader) return reads;
  RankSets sets;
  Parcels parcels(saved, to, sets, {});
  const int tp = saved.layout().mesh.tp, pp = saved.layout().mesh.pp;
  for (int block = 0; block < saved.num_blocks(); ++block)
    for (const Parcel& parcel : parcels.of_block(block)) {
      const std::vector<int>& wanters = sets.ranks(parcel.wanters);
      if (!std::binary_search(wanters.begin(), wanters.end(), rank)) continue;
      int file = std::numeric_limits<int>::max();
      for (const int holder : sets.ranks(parcel.holders)) {
        const auto at = *saved.find(holder);
        file = std::min(file, (at.d * pp + at.p) * tp + at.t);
      }
      const int d = file / (tp * pp), p = file / tp % pp, t = file % tp;
      const int64_t begin = block_begin(saved, p, t, block);
      for (const Parcel::Part& part : parcel.parts) {
        Strided from = saved.place(d, t, part.tensor, part.box);
        from.offset += begin;
        reads.push_back(
            {part.tensor, file, from, block, to.place(reader->d, reader->t, part.tensor, part.box)});
      }
    }
  return reads;
}

}  // namespace trireme::tensors
