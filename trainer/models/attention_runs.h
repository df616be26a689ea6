// Which segments the attention kernels take together, and which are independent. Neither changes a bit.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/models/cpu_kernels.h"

namespace trireme::models {

/// Consecutive segments whose keys begin in the same slots, such as the samples of one prompt.
struct SegmentRun {
  int32_t first, count;
  int32_t shared;  // positions, whole blocks of kKeyBlock, before every row of the run; 0 where count is 1
};

/// Covers all segments in order; no run has more than `most` of them.
std::vector<SegmentRun> shared_runs(const std::vector<SegmentView>& segments, int32_t most);

/// Of segments over rows of one batch (slot = row): groups that have no key in common, each in ascending
/// order. Their gradients may be summed at the same time.
std::vector<std::vector<int32_t>> independent_groups(const std::vector<SegmentView>& segments);

}  // namespace trireme::models
