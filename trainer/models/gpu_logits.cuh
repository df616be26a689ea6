// How a team reads a chunk of a row of logits.
#pragma once

#include "trainer/models/gpu_kernels.h"
#include "trainer/models/gpu_numbers.cuh"

namespace trireme::gpu {

using models::kVocabChunk;

inline constexpr int kStep = 4 * kTeam;  // tokens that a team reads at once; a lane's four are neighbours
inline constexpr int kSteps = kVocabChunk / kStep;

/// Four logits from token `first` on, times a factor; -infinity past the vocabulary. 16 bytes at a time
/// where rows are aligned to that.
__device__ inline Pack<float, 4> load_logits(const float* row, int64_t first, int64_t vocab, float factor) {
  Pack<float, 4> x;
  if (vocab % 4 == 0 && first < vocab) {
    x = load_pack<4>(row + first);
    for (int i = 0; i < 4; ++i) x.at[i] *= factor;
    return x;
  }
  for (int i = 0; i < 4; ++i) x.at[i] = first + i < vocab ? row[first + i] * factor : -INFINITY;
  return x;
}

__device__ inline int32_t least_of_team(int32_t value) {
  for (int mask = kTeam / 2; mask > 0; mask /= 2) {
    const int32_t other = from_lane_xor(value, mask);
    value = other < value ? other : value;
  }
  return value;
}

}  // namespace trireme::gpu
