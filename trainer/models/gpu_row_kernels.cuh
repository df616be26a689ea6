// Row by row: norms, rotation, activation. A row's arithmetic and its order depend on the row's width alone.
//
// Legend: T rows, D width of a row, hd head_dim.
#pragma once

#include "trainer/models/gpu_kernels.h"
#include "trainer/models/gpu_numbers.cuh"

namespace trireme::gpu {

inline constexpr int kNormThreads = 256;
inline constexpr int kRowThreads = 128;
inline constexpr int kActivationThreads = 256;

// One block a row. Each thread takes every 256th group of four (or element, where D is not a multiple of 4).
template <typename T, int width>
__device__ void norm_row(const models::GpuNorm& task, int64_t row, float* scratch) {
  const int64_t dim = task.dim, groups = dim / width;
  const T* const x = static_cast<const T*>(task.x) + row * dim;
  const T* const added = task.added ? static_cast<const T*>(task.added) + row * dim : nullptr;
  T* const sum = static_cast<T*>(task.sum) + row * dim;  // read only where `added` is there
  float squares = 0.0f;
  for (int64_t g = threadIdx.x; g < groups; g += kNormThreads) {
    Pack<T, width> pack = load_pack<width>(x + g * width);
    if (added) {
      const Pack<T, width> other = load_pack<width>(added + g * width);
      for (int i = 0; i < width; ++i) pack.at[i] = narrowed<T>(widened(pack.at[i]) + widened(other.at[i]));
      store_pack(sum + g * width, pack);
    }
    for (int i = 0; i < width; ++i) squares = fmaf(widened(pack.at[i]), widened(pack.at[i]), squares);
  }
  const float mean = sum_of_block(squares, scratch) / static_cast<float>(dim);
  const float inverse = 1.0f / sqrtf(mean + task.eps);
  const T* const from = added ? sum : x;  // a thread reads what it wrote itself
  for (int64_t g = threadIdx.x; g < groups; g += kNormThreads) {
    Pack<T, width> pack = load_pack<width>(from + g * width);
    const Pack<T, width> weight = load_pack<width>(static_cast<const T*>(task.weight) + g * width);
    for (int i = 0; i < width; ++i)
      pack.at[i] = narrowed<T>(widened(pack.at[i]) * inverse * widened(weight.at[i]));
    store_pack(static_cast<T*>(task.out) + row * dim + g * width, pack);
  }
}

template <typename T>
__global__ void rms_norm_kernel(models::GpuNorm task) {
  float* const scratch = reinterpret_cast<float*>(shared_memory());
  const int64_t row = blockIdx.x;
  if (task.dim % 4 == 0)
    norm_row<T, 4>(task, row, scratch);
  else
    norm_row<T, 1>(task, row, scratch);
}

// One block a row, one team a head at a time; v's heads are copied.
template <typename T>
__global__ void qk_norm_kernel(models::GpuQkNorm task) {
  const models::AttentionShape& shape = task.shape;
  const int hd = shape.head_dim, heads = shape.heads + 2 * shape.kv_heads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * heads * hd;
  for (int head = team(); head < heads; head += teams_of_block()) {
    const T* const x = static_cast<const T*>(task.qkv) + row + head * hd;
    T* const out = static_cast<T*>(task.out) + row + head * hd;
    const bool is_value = head >= shape.heads + shape.kv_heads;
    float squares = 0.0f;
    for (int d = lane(); d < hd; d += kTeam) squares = fmaf(widened(x[d]), widened(x[d]), squares);
    const float inverse = 1.0f / sqrtf(sum_of_team(squares) / static_cast<float>(hd) + task.eps);
    const T* const weight = static_cast<const T*>(head < shape.heads ? task.q_weight : task.k_weight);
    for (int d = lane(); d < hd; d += kTeam)
      out[d] = is_value ? x[d] : narrowed<T>(widened(x[d]) * inverse * widened(weight[d]));
  }
}

// One block a row; each thread turns a pair of dimensions at a time, or copies a pair of v's.
template <typename T>
__global__ void rotary_kernel(models::GpuRotary task) {
  const models::AttentionShape& shape = task.shape;
  const int64_t row = blockIdx.x;
  const int hd = shape.head_dim, half = hd / 2;
  const int rotated = shape.heads + shape.kv_heads, heads = rotated + shape.kv_heads;
  const int64_t slot = task.slots ? task.slots[row] : row;
  const T* const from = static_cast<const T*>(task.qkv) + row * task.qkv_stride;
  const float* const turn = task.table + static_cast<int64_t>(task.positions[row]) * hd;
  for (int i = threadIdx.x; i < heads * half; i += kRowThreads) {
    const int head = i / half, d = i % half;
    const float a = widened(from[head * hd + d]), b = widened(from[head * hd + half + d]);
    T* const to = head < shape.heads ? static_cast<T*>(task.q) + row * task.q_stride + head * hd
                  : head < rotated
                      ? static_cast<T*>(task.keys) + slot * task.kv_stride + (head - shape.heads) * hd
                      : static_cast<T*>(task.values) + slot * task.kv_stride + (head - rotated) * hd;
    const bool turns = head < rotated;
    const float cosine = turns ? turn[d] : 1.0f, sine = turns ? turn[half + d] : 0.0f;
    to[d] = turns ? narrowed<T>(fmaf(a, cosine, -(b * sine))) : narrowed<T>(a);
    to[half + d] = turns ? narrowed<T>(fmaf(b, cosine, a * sine)) : narrowed<T>(b);
  }
}

template <typename T, int width>
__device__ void activate(const models::GpuSiluMul& task, int64_t group) {
  const int64_t groups = task.dim / width, row = group / groups, at = group % groups * width;
  const T* const gate = static_cast<const T*>(task.gate_up) + row * 2 * task.dim + at;
  Pack<T, width> pack = load_pack<width>(gate);
  const Pack<T, width> up = load_pack<width>(gate + task.dim);
  for (int i = 0; i < width; ++i) {
    const float x = widened(pack.at[i]);
    pack.at[i] = narrowed<T>(x / (1.0f + exp_of(-x)) * widened(up.at[i]));
  }
  store_pack(static_cast<T*>(task.out) + row * task.dim + at, pack);
}

template <typename T>
__global__ void silu_mul_kernel(models::GpuSiluMul task) {
  const int width = task.dim % 4 == 0 ? 4 : 1;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kActivationThreads + threadIdx.x;
  if (group >= task.rows * (task.dim / width)) return;
  if (width == 4)
    activate<T, 4>(task, group);
  else
    activate<T, 1>(task, group);
}

}  // namespace trireme::gpu
