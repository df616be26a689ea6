// Attention over keys and values that lie in slots: decode, chunked prefill and the packed training forward
// are one kernel (attention_work.h says how work is cut). A team keeps its queries' running maximum, sum and
// weighted values in registers: lane = key while scores are made, lane = some of the dimensions while values
// are summed. Keys and values are read once for all heads of a group.
//
// Legend: hd head_dim, q a query (row, head) of the item.
#pragma once

#include "trainer/models/attention_work.h"
#include "trainer/models/gpu_kernels.h"
#include "trainer/models/gpu_numbers.cuh"
#include "trainer/models/slot_span.h"

namespace trireme::gpu {

using models::kGpuKeyBlock;
using models::kKeySplit;
using models::kQueries;

inline constexpr int kAttentionTeams = 2;  // a block
static_assert(kGpuKeyBlock == kTeam, "a lane is a key of the block");

/// A team's shared memory. Rows of keys end in 16 bytes of nothing: lanes then read different banks.
template <typename T, int hd>
struct AttentionShared {
  static constexpr int kVector = 16 / sizeof(T);
  static constexpr int kRow = hd + kVector;
  alignas(16) float q[kQueries][hd];  // scaled
  alignas(16) float weights[kQueries][kGpuKeyBlock];
  alignas(16) T keys[kGpuKeyBlock * kRow];
  alignas(16) T values[kGpuKeyBlock * hd];
};

/// Of one query, without its weighted values; equal in all lanes.
struct Running {
  float maximum, sum;
};

// Adds a later split to an earlier total. `keep` and `add`: what the weighted values are multiplied by.
__device__ inline void merge(Running& total, const Running& part, float& keep, float& add) {
  keep = 1.0f;
  add = 0.0f;
  if (part.sum == 0.0f) return;  // no key of it is visible
  if (total.sum == 0.0f) {
    total = part;
    keep = 0.0f;
    add = 1.0f;
    return;
  }
  const float maximum = fmaxf(total.maximum, part.maximum);
  keep = exp_of(total.maximum - maximum);
  add = exp_of(part.maximum - maximum);
  total.sum = fmaf(total.sum, keep, part.sum * add);
  total.maximum = maximum;
}
__device__ inline float merged(float total, float keep, float part, float add) {
  return fmaf(total, keep, part * add);
}

/// Where the keys of a walk lie: each lane follows one key of each block.
class SlotWalk {
 public:
  __device__ SlotWalk(const models::SlotSpan* spans, const models::AttentionItem& item)
      : span_(spans + item.span), offset_(item.offset + lane()) {}
  /// Of this lane's key in the present block, which must exist.
  __device__ int32_t slot() {
    while (offset_ >= span_->length) offset_ -= span_++->length;
    return span_->slot + offset_;
  }
  __device__ void next_block() { offset_ += kGpuKeyBlock; }

 private:
  const models::SlotSpan* span_;
  int32_t offset_;
};

template <typename T, int hd>
class AttentionTeam {
  static constexpr int kDims = hd / kTeam;  // of the weighted values, a lane's
  static constexpr int kVector = AttentionShared<T, hd>::kVector;
  using Shared = AttentionShared<T, hd>;

 public:
  __device__ AttentionTeam(const models::GpuAttention& task, const models::AttentionItem& item, int kv_head,
                           Shared& shared)
      : task_(task),
        item_(item),
        kv_head_(kv_head),
        group_(task.shape.heads / task.shape.kv_heads),
        shared_(shared) {}

  __device__ void run(const models::SlotSpan* spans) {
    load_queries();
    SlotWalk walk(spans, item_);
    forget(total_, total_values_);
    for (int32_t begin = item_.key_begin; begin < item_.key_end; begin += kKeySplit) {
      const int32_t end = least(begin + kKeySplit, item_.key_end);
      forget(split_, split_values_);
      for (int32_t key = begin; key < end; key += kGpuKeyBlock) {
        take_block(walk, key, least(kGpuKeyBlock, end - key));
        walk.next_block();
      }
#pragma unroll
      for (int q = 0; q < kQueries; ++q) {
        float keep, add;
        merge(total_[q], split_[q], keep, add);
#pragma unroll
        for (int d = 0; d < kDims; ++d)
          total_values_[q][d] = merged(total_values_[q][d], keep, split_values_[q][d], add);
      }
    }
    // Not a loop over num_queries: registers have no run-time index.
#pragma unroll
    for (int q = 0; q < kQueries; ++q)
      if (q < item_.num_queries) write(q);
  }

 private:
  __device__ int row_of(int q) const {
    return item_.row + (item_.first_query + q) / group_;
  }
  __device__ int head_of(int q) const {
    return kv_head_ * group_ + (item_.first_query + q) % group_;
  }
  __device__ int position_of(int q) const {
    return item_.position + (item_.first_query + q) / group_;
  }

  __device__ static void forget(Running (&running)[kQueries], float (&values)[kQueries][kDims]) {
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      running[q] = {-INFINITY, 0.0f};
#pragma unroll
      for (int d = 0; d < kDims; ++d) values[q][d] = 0.0f;
    }
  }

  __device__ void load_queries() {
    const float scale = 1.0f / sqrtf(static_cast<float>(hd));
    sync_team();  // the item before has been computed
    for (int i = lane(); i < kQueries * hd; i += kTeam) {
      const int q = i / hd;
      const T* const from =
          static_cast<const T*>(task_.q) + row_of(q) * task_.q_stride + head_of(q) * hd + i % hd;
      shared_.q[q][i % hd] = q < item_.num_queries ? widened(*from) * scale : 0.0f;
    }
  }

  // All loads of a block's keys and values, as long vectors, before anything is computed.
  __device__ void load_block(int32_t slot, int count) {
    constexpr int kVectors = hd / kVector, kRows = kTeam / kVectors;
    static_assert(kTeam % kVectors == 0);
    const int part = lane() % kVectors * kVector;
    const T* const keys = static_cast<const T*>(task_.keys) + kv_head_ * hd + part;
    const T* const values = static_cast<const T*>(task_.values) + kv_head_ * hd + part;
#pragma unroll
    for (int first = 0; first < kGpuKeyBlock; first += kRows) {
      const int j = first + lane() / kVectors;
      const int64_t at = from_lane(slot, j) * task_.kv_stride;
      Pack<T, kVector> key{}, value{};
      if (j < count) {
        key = load_pack<kVector>(keys + at);
        value = load_pack<kVector>(values + at);
      }
      store_pack(shared_.keys + j * Shared::kRow + part, key);
      store_pack(shared_.values + j * hd + part, value);
    }
  }

  __device__ void take_block(SlotWalk& walk, int32_t first_key, int count) {
    const int32_t slot = lane() < count ? walk.slot() : 0;
    sync_team();  // the block before has been computed
    load_block(slot, count);
    sync_team();
    float scores[kQueries];
    score(scores);
    const int32_t key = first_key + lane();
    float keep[kQueries];
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const bool visible = lane() < count && key <= position_of(q);
      keep[q] = soften(split_[q], visible ? scores[q] : -INFINITY, q);
    }
    sync_team();
    weigh(keep, count);
  }

  // Of this lane's key by every query: each a chain of its own over the dimensions in order.
  __device__ void score(float (&scores)[kQueries]) const {
#pragma unroll
    for (int q = 0; q < kQueries; ++q) scores[q] = 0.0f;
    const T* const row = shared_.keys + lane() * Shared::kRow;
#pragma unroll 2
    for (int d = 0; d < hd; d += kVector) {
      const Pack<T, kVector> key = load_pack<kVector>(row + d);
#pragma unroll
      for (int q = 0; q < kQueries; ++q)
#pragma unroll
        for (int i = 0; i < kVector; i += 4) {
          const Pack<float, 4> query = load_pack<4>(&shared_.q[q][d + i]);
#pragma unroll
          for (int k = 0; k < 4; ++k) scores[q] = fmaf(query.at[k], widened(key.at[i + k]), scores[q]);
        }
    }
  }

  // A block's scores to weights; returns what the split's earlier values are to be multiplied by.
  __device__ float soften(Running& running, float score, int q) {
    const float maximum = fmaxf(running.maximum, max_of_team(score));
    const bool none = maximum == -INFINITY;  // no key is visible so far
    const float weight = none ? 0.0f : exp_of(score - maximum);
    const float keep = none ? 1.0f : exp_of(running.maximum - maximum);
    shared_.weights[q][lane()] = weight;
    running.sum = fmaf(running.sum, keep, sum_of_team(weight));
    running.maximum = maximum;
    return keep;
  }

  __device__ void weigh(const float (&keep)[kQueries], int count) {
#pragma unroll
    for (int q = 0; q < kQueries; ++q)
#pragma unroll
      for (int d = 0; d < kDims; ++d) split_values_[q][d] *= keep[q];
    const T* const values = shared_.values + lane() * kDims;
    for (int first = 0; first < count; first += 4) {  // what lies beyond `count` is zero
      Pack<T, kDims> value[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) value[j] = load_pack<kDims>(values + (first + j) * hd);
#pragma unroll
      for (int q = 0; q < kQueries; ++q) {
        const Pack<float, 4> weight = load_pack<4>(&shared_.weights[q][first]);
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int d = 0; d < kDims; ++d)
            split_values_[q][d] = fmaf(weight.at[j], widened(value[j].at[d]), split_values_[q][d]);
      }
    }
  }

  __device__ void write(int q) const {
    if (item_.partial >= 0) {
      float* const row =
          task_.partials +
          (static_cast<int64_t>(item_.partial + q) * task_.shape.kv_heads + kv_head_) * (hd + 2);
      for (int d = 0; d < kDims; ++d) row[lane() * kDims + d] = total_values_[q][d];
      if (lane() == 0) {
        row[hd] = total_[q].maximum;
        row[hd + 1] = total_[q].sum;
      }
      return;
    }
    write_row<T, hd>(task_, row_of(q), head_of(q), total_[q], total_values_[q]);
  }

  const models::GpuAttention& task_;
  const models::AttentionItem item_;
  const int kv_head_, group_;
  Shared& shared_;
  Running total_[kQueries], split_[kQueries];
  float total_values_[kQueries][kDims], split_values_[kQueries][kDims];
};

template <typename T, int hd>
__device__ void write_row(const models::GpuAttention& task, int row, int head, const Running& total,
                          const float (&values)[hd / kTeam]) {
  constexpr int kDims = hd / kTeam;
  const int64_t at = static_cast<int64_t>(row) * task.shape.heads + head;
  const float inverse = 1.0f / total.sum;
  Pack<T, kDims> out;
  for (int d = 0; d < kDims; ++d) out.at[d] = narrowed<T>(values[d] * inverse);
  store_pack(static_cast<T*>(task.out) + at * hd + lane() * kDims, out);
  if (task.lse && lane() == 0)
    task.lse[at] = static_cast<float>(total.maximum + log(static_cast<double>(total.sum)));
}

template <typename T, int hd>
__global__ void attention_kernel(models::GpuAttention task) {
  const int32_t* const words = task.work;
  const auto& header = *reinterpret_cast<const models::AttentionWorkHeader*>(words);
  const auto* const items = reinterpret_cast<const models::AttentionItem*>(words + header.items_at);
  const auto* const spans = reinterpret_cast<const models::SlotSpan*>(words + header.spans_at);
  auto& shared = reinterpret_cast<AttentionShared<T, hd>*>(shared_memory())[team()];
  const int64_t teams = static_cast<int64_t>(gridDim.x) * kAttentionTeams;
  const int64_t count = static_cast<int64_t>(header.num_items) * task.shape.kv_heads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kAttentionTeams + team(); i < count; i += teams) {
    const auto kv_head = static_cast<int>(i % task.shape.kv_heads);
    AttentionTeam<T, hd>(task, items[i / task.shape.kv_heads], kv_head, shared).run(spans);
  }
}

// One team a query of a merge; splits in ascending order.
template <typename T, int hd>
__global__ void attention_merge_kernel(models::GpuAttention task) {
  constexpr int kDims = hd / kTeam;
  const int32_t* const words = task.work;
  const auto& header = *reinterpret_cast<const models::AttentionWorkHeader*>(words);
  const auto* const merges = reinterpret_cast<const models::AttentionMerge*>(words + header.merges_at);
  const int kv_heads = task.shape.kv_heads, group = task.shape.heads / kv_heads;
  const int64_t teams = static_cast<int64_t>(gridDim.x) * teams_of_block();
  const int64_t count = static_cast<int64_t>(header.num_merges) * kv_heads * kQueries;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * teams_of_block() + team(); i < count; i += teams) {
    const auto q = static_cast<int>(i % kQueries), kv_head = static_cast<int>(i / kQueries % kv_heads);
    const models::AttentionMerge& merged_queries = merges[i / kQueries / kv_heads];
    if (q >= merged_queries.num_queries) continue;
    Running total{-INFINITY, 0.0f};
    float values[kDims] = {};
    for (int s = 0; s < merged_queries.num_splits; ++s) {
      const int64_t partial = merged_queries.partial + s * merged_queries.num_queries + q;
      const float* const row = task.partials + (partial * kv_heads + kv_head) * (hd + 2);
      float keep, add;
      merge(total, {row[hd], row[hd + 1]}, keep, add);
      for (int d = 0; d < kDims; ++d) values[d] = merged(values[d], keep, row[lane() * kDims + d], add);
    }
    const int query = merged_queries.first_query + q;
    write_row<T, hd>(task, merged_queries.row + query / group, kv_head * group + query % group, total,
                     values);
  }
}

}  // namespace trireme::gpu
