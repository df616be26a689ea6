// Attention on the CPU over the rows of a batch or the pages of a cache, with the rotary embedding before it.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "trainer/models/attention_runs.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/kernel_arguments.h"
#include "trainer/models/ops.h"
#include "trainer/models/row_blocks.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::vector<SegmentView> views_of(const std::vector<Segment>& segments) {
  std::vector<SegmentView> views;
  views.reserve(segments.size());
  for (const Segment& segment : segments)
    views.push_back({segment.row, segment.length, segment.position, segment.spans.data(),
                     static_cast<int32_t>(segment.spans.size())});
  return views;
}

// Runs and kv heads are independent in the forward pass: any thread may take any of them.
void run_attention(const AttentionForward& task, const std::vector<Segment>& segments) {
  const auto views = views_of(segments);
  const int64_t kv_heads = task.shape.kv_heads, threads = at::get_num_threads();
  const int64_t tasks = static_cast<int64_t>(views.size()) * kv_heads;
  // Runs as long as they leave each thread a few tasks.
  const auto runs = shared_runs(
      views, static_cast<int32_t>(threads == 1 ? tasks : std::max<int64_t>(tasks / (4 * threads), 1)));
  at::parallel_for(0, static_cast<int64_t>(runs.size()) * kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const SegmentRun& run = runs[static_cast<size_t>(i / kv_heads)];
      cpu_kernels().attention_forward(task, &views[static_cast<size_t>(run.first)], run.count, run.shared,
                                      static_cast<int32_t>(i % kv_heads));
    }
  });
}

// Segments that share a key add to its gradient in their order; others are independent, as are kv heads.
void run_attention_backward(const AttentionBackward& task, const std::vector<Segment>& segments) {
  const auto views = views_of(segments);
  const auto groups = independent_groups(views);
  const int64_t kv_heads = task.forward.shape.kv_heads;
  at::parallel_for(0, static_cast<int64_t>(groups.size()) * kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (const int32_t s : groups[static_cast<size_t>(i / kv_heads)])
        cpu_kernels().attention_backward(task, views[static_cast<size_t>(s)],
                                         static_cast<int32_t>(i % kv_heads));
  });
}

// Where slots are named, keys and values go there; else row r of each goes to row r.
void run_rotary(const RotaryTask& all) {
  const int64_t bytes = all.element == Element::f32 ? 4 : 2;
  const auto at = [bytes](auto* base, int64_t elements) {
    return static_cast<char*>(const_cast<void*>(static_cast<const void*>(base))) + elements * bytes;
  };
  for_rows(all.rows, all.qkv_stride, [&](int64_t begin, int64_t end) {
    RotaryTask task = all;
    task.rows = end - begin;
    task.qkv = at(all.qkv, begin * all.qkv_stride);
    task.q = at(all.q, begin * all.q_stride);
    task.positions = all.positions + begin;
    if (all.slots) {
      task.slots = all.slots + begin;
    } else {
      task.keys = at(all.keys, begin * all.kv_stride);
      task.values = at(all.values, begin * all.kv_stride);
    }
    cpu_kernels().rotary(task);
  });
}

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
    const int64_t q_width = grad_q.size(1), kv_width = grad_keys.size(1), width = result.size(1);
    for_rows(rows, width, [&](int64_t begin, int64_t end) {
      cpu_kernels().rotary_backward({.shape = task.forward.shape,
                                     .element = task.forward.element,
                                     .rows = end - begin,
                                     .positions = saved[3].const_data_ptr<int32_t>() + begin,
                                     .table = saved[4].const_data_ptr<float>(),
                                     .grad_q = task.grad_q + begin * q_width,
                                     .grad_keys = task.grad_keys + begin * kv_width,
                                     .grad_values = task.grad_values + begin * kv_width,
                                     .grad_qkv = element(result, begin * width)});
    });
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
