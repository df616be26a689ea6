// Sampling on a GPU: chooses tokens where the logits lie, by the rules of sampler.h, so that only what was
// drawn comes back. Torch-free.
//
// Legend: N rows of logits, V vocab_size, M draws.
#pragma once

#include <cstdint>

#include "trainer/models/gpu_kernels.h"
#include "trainer/rollout/sampler.h"

namespace trireme::rollout {

/// How a row of logits is drawn from.
struct DrawSettings {
  double top_p = 1.0;
  float min_p = 0;
  int32_t top_k = 0;  // 0: all
  int32_t greedy = 0;
  int32_t first_draw = 0, num_draws = 0;  // its places among the M draws
  int32_t unused = 0;
};

/// All on the device. The drawn token is -1 where the row's logits are not numbers. In order of ids as on the
/// CPU; with top-k, top-p or min-p weights are whole multiples of 2^-44 of the largest, so every sum is
/// exact.
struct GpuDraw {
  const float* logits;  // [N, V], contiguous
  int64_t rows, vocab;
  const float* inverse_temperature;  // [N]
  const models::ChunkStats* chunks;  // [N, chunks of V], of GpuSoftmax
  const models::SoftmaxRow* stats;   // [N], likewise
  const DrawSettings* settings;      // [N]
  const double* uniforms;            // [M], in [0, 1)
  uint64_t* masses;                  // [N, chunks of V], scratch
  uint32_t* ties;                    // likewise
  SampledToken* drawn;               // [M]
};

using DrawKernel = void (*)(const GpuDraw& task, models::GpuStream stream);

/// Null in a build without a GPU toolkit.
DrawKernel draw_kernel();

}  // namespace trireme::rollout
