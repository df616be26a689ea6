// Row kernels for GPUs, behind one table: what cpu_kernels.h is for the CPU, with tensors in the memory of a
// device. Every call only enqueues work on `stream`, reads its batch from device memory alone and looks at
// no length to choose how a row is computed; so calls may be captured in a graph. A row's bits do not depend
// on the other rows. Errors of a launch are thrown (cuda); those of the work appear at the next
// synchronisation. Torch-free.
//
// Legend: T rows, D width of a row, S slots, V vocab_size.
#pragma once

#include <cstdint>

#include "trainer/models/cpu_kernels.h"

namespace trireme::models {

using GpuStream = void*;  // cudaStream_t or hipStream_t

/// out = rms_norm(x) * weight. Where `added` is not null: sum = x + added in the rows' own dtype, and out is
/// the norm of that. Contiguous rows; sum may be x.
struct GpuNorm {
  Element element;
  const void *x, *added, *weight;
  float eps;
  int64_t rows, dim;
  void *sum, *out;
};

/// Each head of q and of k by its RMS and one weight of head_dim each; v as it is. Contiguous rows.
struct GpuQkNorm {
  AttentionShape shape;
  Element element;
  const void *qkv, *q_weight, *k_weight;  // [T, (heads + 2 kv_heads) * head_dim]
  float eps;
  int64_t rows;
  void* out;
};

using GpuRotary = RotaryTask;  // its pointers on the device; an even head_dim

/// out[r] = silu(gate_up[r][:dim]) * gate_up[r][dim:]
struct GpuSiluMul {
  Element element;
  const void* gate_up;
  int64_t rows, dim;
  void* out;
};

struct GpuAttention {
  AttentionShape shape;
  Element element;
  const void* q;  // [T, heads, head_dim], row stride q_stride
  int64_t q_stride;
  const void *keys, *values;  // [S, kv_heads, head_dim], slot stride kv_stride
  int64_t kv_stride;
  void* out;            // [T, heads, head_dim], contiguous
  float* lse;           // [T, heads]: log sum exp of the scaled scores; may be null
  const int32_t* work;  // attention_work.h, on the device
  float* partials;      // [partial rows, kv_heads, head_dim + 2]
  int64_t most_items;   // an upper bound of the items in `work`: a captured launch serves that many
};

/// Of kVocabChunk neighbouring logits x: their maximum m and its first place, the sum of e = exp(x - m) and
/// that of e (x - m).
struct ChunkStats {
  float maximum, sum, weighted;
  int32_t largest;
};
inline constexpr int kVocabChunk = 1024;
inline int64_t vocab_chunks(int64_t vocab) {
  return (vocab + kVocabChunk - 1) / kVocabChunk;
}

/// Of a row of logits, each times the row's inverse temperature. Not finite where a logit is not.
struct SoftmaxRow {
  float maximum, log_sum_exp, entropy;
  int32_t largest;  // the lowest token of the largest logit
};

struct GpuSoftmax {
  const float* logits;  // [rows, V], contiguous
  int64_t rows, vocab;
  const float* inverse_temperature;  // [rows], or null: 1
  ChunkStats* chunks;                // [rows, vocab_chunks(V)]
  SoftmaxRow* stats;                 // [rows]
};

struct GpuKernels {
  void (*rms_norm)(const GpuNorm& task, GpuStream stream);
  void (*qk_norm)(const GpuQkNorm& task, GpuStream stream);
  void (*rotary)(const GpuRotary& task, GpuStream stream);
  void (*silu_mul)(const GpuSiluMul& task, GpuStream stream);
  /// head_dim 64 or 128. Keys and values must be finite, 16-byte aligned, as must strides be.
  void (*attention)(const GpuAttention& task, GpuStream stream);
  void (*softmax)(const GpuSoftmax& task, GpuStream stream);
};

/// Throws cuda: a kernel could not be started. Its own function, as nvcc does not know all of fmt.
[[noreturn]] void fail_launch(const char* kernel, const char* why);

/// Head dimensions that `attention` knows.
inline bool gpu_attention_knows(int64_t head_dim) {
  return head_dim == 64 || head_dim == 128;
}

/// This build's kernels; null in a build without a GPU toolkit.
const GpuKernels* gpu_kernels();

}  // namespace trireme::models
