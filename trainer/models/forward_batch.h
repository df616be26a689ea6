// What one forward computes: rows (tokens) laid end to end, without padding, and for each run of
// rows the keys it may see. Rollout and training fill the same structure: in rollout the slots of
// keys are places in the paged cache, in training they are the rows of the batch itself. So there is
// one attention routine, and a prompt shared by several responses is computed once in both.
//
// Legend: T rows of the batch, S slots of keys and values, L layers.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/models/slot_span.h"

namespace trireme::models {

/// Rows [row, row + length) continue one history: row i stands at position `position` + i and attends
/// to positions 0 .. position + i, which lie in `spans` in ascending order (its own included).
struct Segment {
  int32_t row = 0;
  int32_t length = 0;
  int32_t position = 0;
  std::vector<SlotSpan> spans;
};

struct ForwardBatch {
  std::vector<int32_t> tokens;     // [T]
  std::vector<int32_t> positions;  // [T]
  std::vector<int32_t> slots;      // [T] the slot that each row's key and value are written to
  std::vector<Segment> segments;   // disjoint, cover all T rows, in row order

  int64_t num_rows() const { return static_cast<int64_t>(tokens.size()); }
};

/// Keys and values of one layer, [S, kv_heads, head_dim], in the compute dtype.
struct LayerKv {
  at::Tensor keys, values;
};

/// The cache that rollout owns: one entry a layer, all of S slots.
using KvSlots = std::vector<LayerKv>;

}  // namespace trireme::models
