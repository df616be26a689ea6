#include "trainer/models/kernel_arguments.h"

#include "trainer/models/packed_linear.h"

namespace trireme::models {
namespace {

// What is rotated; where it goes is left to the caller.
RotaryTask rotary_of(const at::Tensor& qkv, const AttentionDims& dims, const at::Tensor& positions,
                     const at::Tensor& rope) {
  RotaryTask task{};
  task.shape = kernel_shape(dims);
  task.element = element_of(qkv);
  task.qkv = qkv.const_data_ptr();
  task.qkv_stride = qkv.stride(0);
  task.rows = qkv.size(0);
  task.positions = positions.const_data_ptr<int32_t>();
  task.table = rope.const_data_ptr<float>();
  return task;
}

}  // namespace

Element element_of(const at::Tensor& x) {
  return element_of(x.scalar_type());
}

void* element(const at::Tensor& x, int64_t at) {
  return static_cast<char*>(x.data_ptr()) + at * x.element_size();
}

AttentionShape kernel_shape(const AttentionDims& dims) {
  return {static_cast<int32_t>(dims.heads), static_cast<int32_t>(dims.kv_heads),
          static_cast<int32_t>(dims.head_dim)};
}

RotaryTask rotary_in_rows(const at::Tensor& qkv, const AttentionDims& dims, const at::Tensor& positions,
                          const at::Tensor& rope, const at::Tensor& rotated) {
  RotaryTask task = rotary_of(qkv, dims, positions, rope);
  task.q = rotated.mutable_data_ptr();
  task.keys = element(rotated, dims.heads * dims.head_dim);
  task.values = element(rotated, (dims.heads + dims.kv_heads) * dims.head_dim);
  task.q_stride = task.kv_stride = rotated.stride(0);
  return task;
}

RotaryTask rotary_to_slots(const at::Tensor& qkv, const AttentionDims& dims, const at::Tensor& positions,
                           const at::Tensor& rope, const at::Tensor& q, const LayerKv& kv,
                           const int32_t* slots) {
  RotaryTask task = rotary_of(qkv, dims, positions, rope);
  task.q = q.mutable_data_ptr();
  task.q_stride = q.stride(0);
  task.keys = kv.keys.mutable_data_ptr();
  task.values = kv.values.mutable_data_ptr();
  task.kv_stride = kv.keys.stride(0);
  task.slots = slots;
  return task;
}

}  // namespace trireme::models
