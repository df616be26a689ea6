// A ForwardBatch as a GPU's kernels take it: in the device's memory, in one block of 32-bit words.
//
// Legend: T rows.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/models/forward_batch.h"

namespace trireme::models {

struct DeviceBatch {
  at::Tensor tokens_T, positions_T, slots_T;  // int32
  at::Tensor work;                            // int32: what attention is to do (attention_work.h)
  at::Tensor partials;                        // fp32, or undefined where nothing is split
  at::Tensor rope;                            // [positions, head_dim] cos | sin, fp32
  int64_t most_items = 0;                     // an upper bound of the attention items
};

/// Rows of partial results in a forward that is not captured: more segments are simply not split.
inline constexpr int64_t kPartialRows = 16384;

/// Room for partial results of attention: fp32 values a row of them.
struct PartialRows {
  int64_t most = 0;   // 0: no segment is split
  int64_t width = 0;  // kv_heads * (head_dim + 2)
};

/// Tokens, positions, slots and attention's work, end to end; `group` heads share a kv head.
std::vector<int32_t> words_of(const ForwardBatch& batch, int32_t group, int64_t partial_rows);
/// The parts of words_of() of T rows that lie in `words`.
DeviceBatch parts_of(const at::Tensor& words, int64_t rows);
/// Where attention's work begins in them.
int64_t work_offset(int64_t rows);

/// Copies a batch to `device`, in memory of its own.
DeviceBatch upload(const ForwardBatch& batch, int32_t group, PartialRows partial_rows, at::Device device);

}  // namespace trireme::models
