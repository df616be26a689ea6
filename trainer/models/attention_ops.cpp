// Attention on the CPU over the rows of a batch or the pages of a cache, with the rotary embedding before it.
#include <torch/csrc/autograd/custom_function.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "trainer/models/attention_runs.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/kernel_arguments.h"
#include "trainer/models/ops.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct AttentionFunction : Function<AttentionFunction> {
  static AttentionForward task_of(const at::Tensor& rotated, const at::Tensor& out, const at::Tensor& lse,
                                  const AttentionDims& dims) {
    AttentionForward task{};
    task.shape = kernel_shape(dims);
    task.element = element_of(rotated);
    task.q = rotated.const_data_ptr();
    task.keys = element(rotated, dims.heads * dims.head_dim);
    task.values = element(rotated, (dims.heads + dims.kv_heads) * dims.head_dim);
    task.q_stride = task.kv_stride = rotated.stride(0);
    task.out = out.mutable_data_ptr();
    task.lse = lse.mutable_data_ptr<float>();
    return task;
  }

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, const AttentionDims& dims,
                            const BatchPlan* plan) {
    const int64_t rows = qkv.size(0);
    const at::Tensor rotated = at::empty_like(qkv);
    run_rotary(rotary_in_rows(qkv, dims, plan->positions_T, plan->rope, rotated));
    const at::Tensor out = at::empty({rows, dims.heads * dims.head_dim}, qkv.options());
    const at::Tensor lse = at::empty({rows, dims.heads}, at::kFloat);
    AttentionForward task = task_of(rotated, out, lse, dims);
    run_attention(task, plan->batch->segments);
    ctx->save_for_backward({rotated, out, lse, plan->positions_T, plan->rope});
    ctx->saved_data["heads"] = dims.heads;
    ctx->saved_data["kv_heads"] = dims.kv_heads;
    ctx->saved_data["head_dim"] = dims.head_dim;
    ctx->saved_data["batch"] = reinterpret_cast<int64_t>(plan->batch);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &rotated = saved[0], &out = saved[1], &lse = saved[2];
    const AttentionDims dims{ctx->saved_data["heads"].toInt(), ctx->saved_data["kv_heads"].toInt(),
                             ctx->saved_data["head_dim"].toInt()};
    const auto* batch = reinterpret_cast<const ForwardBatch*>(ctx->saved_data["batch"].toInt());
    const at::Tensor grad = grads[0].contiguous();
    const int64_t rows = rotated.size(0);
    const at::Tensor grad_q = at::empty({rows, dims.heads * dims.head_dim}, at::kFloat);
    const at::Tensor grad_keys = at::zeros({rows, dims.kv_heads * dims.head_dim}, at::kFloat);
    const at::Tensor grad_values = at::zeros_like(grad_keys);
    AttentionBackward task{};
    task.forward = task_of(rotated, out, lse, dims);
    task.grad_out = grad.const_data_ptr();
    task.grad_q = grad_q.mutable_data_ptr<float>();
    task.grad_keys = grad_keys.mutable_data_ptr<float>();
    task.grad_values = grad_values.mutable_data_ptr<float>();
    run_attention_backward(task, batch->segments);
    const at::Tensor result = at::empty_like(rotated);
    run_rotary_backward({.shape = task.forward.shape,
                         .element = task.forward.element,
                         .rows = rows,
                         .positions = saved[3].const_data_ptr<int32_t>(),
                         .table = saved[4].const_data_ptr<float>(),
                         .grad_q = task.grad_q,
                         .grad_keys = task.grad_keys,
                         .grad_values = task.grad_values,
                         .grad_qkv = result.mutable_data_ptr()});
    return {result, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor attention_packed(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  if (device::computes(qkv)) return device::attention_packed(qkv, dims, plan);
  return AttentionFunction::apply(qkv.contiguous(), dims, &plan);
}

at::Tensor attention_paged(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan,
                           LayerKv& kv) {
  if (device::computes(qkv)) return device::attention_paged(qkv, dims, plan, kv);
  const int64_t rows = qkv.size(0), q_width = dims.heads * dims.head_dim,
                kv_width = dims.kv_heads * dims.head_dim;
  const at::Tensor q = at::empty({rows, q_width}, qkv.options());
  run_rotary(rotary_to_slots(qkv, dims, plan.positions_T, plan.rope, q, kv, plan.batch->slots.data()));
  const at::Tensor out = at::empty({rows, q_width}, qkv.options());
  AttentionForward task{};
  task.shape = kernel_shape(dims);
  task.element = element_of(qkv);
  task.q = q.const_data_ptr();
  task.q_stride = q_width;
  task.keys = kv.keys.const_data_ptr();
  task.values = kv.values.const_data_ptr();
  task.kv_stride = kv_width;
  task.out = out.mutable_data_ptr();
  run_attention(task, plan.batch->segments);
  return out;
}

}  // namespace trireme::models
