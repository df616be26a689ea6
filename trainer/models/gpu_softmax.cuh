// One read of the logits: each team takes kVocabChunk neighbours of a row, then one team a row merges what
// they found, in one fixed order.
#pragma once

#include "trainer/models/gpu_kernels.h"
#include "trainer/models/gpu_logits.cuh"

namespace trireme::gpu {

inline constexpr int kSoftmaxThreads = 128;

__global__ void softmax_chunks_kernel(models::GpuSoftmax task) {
  const int64_t chunks = (task.vocab + kVocabChunk - 1) / kVocabChunk;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * teams_of_block() + team();
  if (index >= task.rows * chunks) return;  // whole teams
  const int64_t row = index / chunks, begin = index % chunks * kVocabChunk + 4 * lane();
  const float factor = task.inverse_temperature ? task.inverse_temperature[row] : 1.0f;
  Pack<float, 4> x[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
    x[s] = load_logits(task.logits + row * task.vocab, begin + s * kStep, task.vocab, factor);
  float own = -INFINITY;
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
    for (int i = 0; i < 4; ++i) own = fmaxf(own, x[s].at[i]);
  const float maximum = max_of_team(own);
  float sum = 0.0f, weighted = 0.0f;
  int32_t largest = INT32_MAX;
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
    for (int i = 0; i < 4; ++i) {
      const int64_t token = begin + s * kStep + i;
      if (token >= task.vocab) continue;
      const float below = x[s].at[i] - maximum, e = exp_of(below);
      sum += e;
      weighted = fmaf(e, below, weighted);
      if (x[s].at[i] == maximum && token < largest) largest = static_cast<int32_t>(token);
    }
  sum = sum_of_team(sum);
  weighted = sum_of_team(weighted);
  largest = least_of_team(largest);
  if (lane() == 0) task.chunks[index] = {maximum, sum, weighted, largest};
}

__global__ void softmax_rows_kernel(models::GpuSoftmax task) {
  const int64_t chunks = (task.vocab + kVocabChunk - 1) / kVocabChunk;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * teams_of_block() + team();
  if (row >= task.rows) return;
  const models::ChunkStats* const of_row = task.chunks + row * chunks;
  float own = -INFINITY;
  for (int64_t c = lane(); c < chunks; c += kTeam) own = fmaxf(own, of_row[c].maximum);
  const float maximum = max_of_team(own);
  double sum = 0.0, weighted = 0.0;
  int32_t largest = INT32_MAX;
  for (int64_t c = lane(); c < chunks; c += kTeam) {
    const models::ChunkStats chunk = of_row[c];
    const double below = static_cast<double>(chunk.maximum) - maximum;
    const double scale = exp_of(static_cast<float>(below));
    sum += scale * chunk.sum;
    weighted += scale * (chunk.weighted + below * chunk.sum);
    if (chunk.maximum == maximum && chunk.largest < largest) largest = chunk.largest;
  }
  sum = sum_of_team(sum);
  weighted = sum_of_team(weighted);
  largest = least_of_team(largest);
  const double log_sum = log(sum);
  if (lane() == 0)
    task.stats[row] = {maximum, static_cast<float>(maximum + log_sum),
                       static_cast<float>(log_sum - weighted / sum), largest};
}

}  // namespace trireme::gpu
