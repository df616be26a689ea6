// Tensors as kernels take them, on the CPU (cpu_kernels.h) and on a GPU (gpu_kernels.h) alike.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/models/cpu_kernels.h"
#include "trainer/models/ops.h"

namespace trireme::models {

/// fp32 -> f32, bf16 -> bf16; throws for others.
Element element_of(const at::Tensor& x);

/// The address of the element that stands `at` places from the first.
void* element(const at::Tensor& x, int64_t at);

AttentionShape kernel_shape(const AttentionDims& dims);

/// qkv's rows to the same places of `rotated`, both [T, qkv_width]: q and k rotated, v as it is. Keys and
/// values then share a stride. positions_T (int32) and rope (BatchPlan) lie where qkv does.
RotaryTask rotary_in_rows(const at::Tensor& qkv, const AttentionDims& dims, const at::Tensor& positions_T,
                          const at::Tensor& rope, const at::Tensor& rotated);

/// The same, with q to `q` [T, heads * head_dim] and row r of keys and values to slot slots[r] of the cache.
RotaryTask rotary_to_slots(const at::Tensor& qkv, const AttentionDims& dims, const at::Tensor& positions_T,
                           const at::Tensor& rope, const at::Tensor& q, const LayerKv& kv,
                           const int32_t* slots);

}  // namespace trireme::models
