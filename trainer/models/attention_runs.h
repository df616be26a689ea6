// A batch's attention and rotation shared out over threads: which segments the kernels take together, and
// which are independent. Neither changes a bit.
#pragma once

#include <climits>
#include <cstdint>
#include <vector>

#include "trainer/models/cpu_kernels.h"
#include "trainer/models/forward_batch.h"

namespace trireme::models {

/// Consecutive segments whose keys begin in the same slots, such as the samples of one prompt.
struct SegmentRun {
  int32_t first, count;
  int32_t shared;  // positions, whole blocks of kKeyBlock, before every row of the run; 0 where count is 1
};

/// Covers all segments in order; no run has more than `most` of them.
std::vector<SegmentRun> shared_runs(const std::vector<SegmentView>& segments, int32_t most);

/// Groups of segments that have no slot in common, each in ascending order. Their gradients may be summed at
/// the same time.
std::vector<std::vector<int32_t>> independent_groups(const std::vector<SegmentView>& segments);

/// The positions of keys that are there, which are those of all segments' spans.
struct KeyRange {
  int32_t begin = 0, end = INT_MAX;
  bool is_all() const { return begin == 0 && end == INT_MAX; }
};

/// Runs and kv heads are independent in the forward pass: any thread may take any of them.
void run_attention(const AttentionForward& task, const std::vector<Segment>& segments,
                   const KeyRange& keys = {});
/// Segments that share a key add to its gradient in their order; others are independent, as are kv heads.
void run_attention_backward(const AttentionBackward& task, const std::vector<Segment>& segments,
                            const KeyRange& keys = {});
/// Where slots are named, keys and values go there; else row r of each goes to row r.
void run_rotary(const RotaryTask& task);
void run_rotary_backward(const RotaryBackwardTask& task);

}  // namespace trireme::models
