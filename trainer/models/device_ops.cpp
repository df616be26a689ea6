#include "trainer/models/device_ops.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <numeric>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/base/error.h"
#include "trainer/models/context_parallel.h"
#include "trainer/models/device_batch.h"
#include "trainer/models/kernel_arguments.h"
#include "trainer/models/reference_ops.h"
#include "trainer/models/tensor_parallel.h"

namespace trireme::models {

void fail_launch(const char* kernel, const char* why) {
  fail(ErrorCode::cuda, "the {} kernel could not be started: {}", kernel, why);
}

}  // namespace trireme::models

namespace trireme::models::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

const GpuKernels* double_in_use = nullptr;

// One operation on rows: by a kernel, and in plain tensor arithmetic.
struct Operation : torch::CustomClassHolder {
  using Body = std::function<at::Tensor(const at::Tensor&)>;
  Operation(Body kernel_body, Body plain_body)
      : kernel(std::move(kernel_body)), plain(std::move(plain_body)) {}
  Body kernel, plain;
};

struct RecomputedFunction : Function<RecomputedFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const c10::intrusive_ptr<Operation>& operation) {
    ctx->save_for_backward({x});
    ctx->saved_data["operation"] = c10::IValue::make_capsule(operation);
    return operation->kernel(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto operation =
        c10::static_intrusive_pointer_cast<Operation>(ctx->saved_data["operation"].toCapsule());
    const at::AutoGradMode recording(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_(true);
    operation->plain(x).backward(grads[0]);
    return {x.grad(), at::Tensor()};
  }
};

at::Tensor run(const at::Tensor& x, Operation::Body kernel, Operation::Body plain) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return kernel(x);
  return RecomputedFunction::apply(x, c10::make_intrusive<Operation>(std::move(kernel), std::move(plain)));
}

// A leaf for autograd that shares the flat buffer's gradient, so that autograd adds into it.
at::Tensor leaf_of(const Weight& weight) {
  at::Tensor leaf = weight.value.to(at::kFloat).detach().requires_grad_(true);
  leaf.mutable_grad() = weight.gradient;
  return leaf;
}

// Keys, values and their stride as the rotation wrote them.
at::Tensor attend(const GpuRotary& rotated, const at::Tensor& q, int64_t q_stride, const DeviceBatch& batch) {
  const at::Tensor out = at::empty(
      {rotated.rows, static_cast<int64_t>(rotated.shape.heads) * rotated.shape.head_dim}, q.options());
  GpuAttention task{};
  task.shape = rotated.shape;
  task.element = rotated.element;
  task.q = q.const_data_ptr();
  task.q_stride = q_stride;
  task.keys = rotated.keys;
  task.values = rotated.values;
  task.kv_stride = rotated.kv_stride;
  task.out = out.mutable_data_ptr();
  task.work = batch.work.const_data_ptr<int32_t>();
  task.partials = batch.partials.defined() ? batch.partials.mutable_data_ptr<float>() : nullptr;
  task.most_items = batch.most_items;
  kernels().attention(task, stream(q.device()));
  return out;
}

at::Tensor packed_by_kernel(const at::Tensor& qkv, const AttentionDims& dims, const DeviceBatch& batch) {
  const at::Tensor rotated = at::empty_like(qkv);
  const GpuRotary rotary = rotary_in_rows(qkv, dims, batch.positions_T, batch.rope, rotated);
  kernels().rotary(rotary, stream(qkv.device()));
  return attend(rotary, rotated, rotary.q_stride, batch);
}

int64_t rows_of_all(const ContextPlan& context) {
  return std::accumulate(context.shares.begin(), context.shares.end(), int64_t{0});
}

at::Tensor ring_by_kernel(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  const int64_t q_width = dims.heads * dims.head_dim, kv_width = dims.kv_heads * dims.head_dim;
  const at::Tensor rotated = at::empty_like(qkv);
  GpuRotary rotary = rotary_in_rows(qkv, dims, plan.device->positions_T, plan.device->rope, rotated);
  kernels().rotary(rotary, stream(qkv.device()));
  const at::Tensor all = gather_rows(rotated.narrow(1, q_width, 2 * kv_width), {plan.context->context.group},
                                     rows_of_all(*plan.context));
  rotary.keys = all.data_ptr();
  rotary.values = element(all, kv_width);
  rotary.kv_stride = all.stride(0);
  return attend(rotary, rotated, rotary.q_stride, *plan.device);
}

at::Tensor ring_by_tensors(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  const int64_t q_width = dims.heads * dims.head_dim, kv_width = dims.kv_heads * dims.head_dim;
  const auto heads = [&](const at::Tensor& x) { return x.reshape({x.size(0), -1, dims.head_dim}); };
  const auto turned = [&](const at::Tensor& x) {
    return reference::rotary(heads(x), plan.device->positions_T, plan.device->rope);
  };
  const at::Tensor q = turned(qkv.narrow(1, 0, q_width));
  const at::Tensor mine = at::cat(
      {turned(qkv.narrow(1, q_width, kv_width)).flatten(1), qkv.narrow(1, q_width + kv_width, kv_width)}, 1);
  const at::Tensor all = gather_rows(mine, {plan.context->context.group}, rows_of_all(*plan.context));
  // A rank without rows takes part in the others' sums.
  if (plan.batch->segments.empty()) return q.flatten(1) + 0 * all.sum();
  return reference::attention(q, heads(all.narrow(1, 0, kv_width)), heads(all.narrow(1, kv_width, kv_width)),
                              plan.batch->segments)
      .flatten(1);
}

at::Tensor packed_by_tensors(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  const int64_t rows = qkv.size(0);
  const auto parts = qkv.split_with_sizes(
      {dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim, dims.kv_heads * dims.head_dim}, 1);
  const auto heads = [&](const at::Tensor& x) { return x.view({rows, -1, dims.head_dim}); };
  const at::Tensor &positions = plan.device->positions_T, &rope = plan.device->rope;
  return reference::attention(reference::rotary(heads(parts[0]), positions, rope),
                              reference::rotary(heads(parts[1]), positions, rope), heads(parts[2]),
                              plan.batch->segments)
      .reshape({rows, dims.heads * dims.head_dim});
}

void check_known(const AttentionDims& dims) {
  if (!gpu_attention_knows(dims.head_dim))
    fail(ErrorCode::invalid_config,
         "attention on a GPU knows heads of 64 and of 128 dimensions, this model has {}: run it with "
         "run.device = \"cpu\"",
         dims.head_dim);
}

}  // namespace

bool computes(const at::Tensor& x) {
  return !x.is_cpu() || double_in_use;
}

void use_double(const GpuKernels* kernels) {
  double_in_use = kernels;
}

const GpuKernels& kernels() {
  const GpuKernels* table = double_in_use ? double_in_use : gpu_kernels();
  TRIREME_CHECK(table, "tensors on a GPU in a build without its kernels");
  return *table;
}

GpuStream stream(at::Device device) {
  if (device.is_cpu()) return nullptr;
  const c10::impl::VirtualGuardImpl impl(device.type());
  return impl.getStreamNativeHandle(impl.getStream(device));
}

at::Tensor rms_norm(const at::Tensor& rows, const Weight& weight, double eps) {
  return run(
      rows.contiguous(),
      [&weight, eps](const at::Tensor& x) {
        const at::Tensor out = at::empty_like(x);
        kernels().rms_norm({element_of(x), x.const_data_ptr(), nullptr, weight.value.const_data_ptr(),
                            static_cast<float>(eps), x.size(0), x.size(1), nullptr, out.mutable_data_ptr()},
                           stream(x.device()));
        return out;
      },
      [&weight, eps](const at::Tensor& x) { return reference::rms_norm(x, leaf_of(weight), eps); });
}

at::Tensor add_rms_norm(at::Tensor& residual, const at::Tensor& added, const Weight& weight, double eps) {
  const at::Tensor x = residual.contiguous(), sum = at::empty_like(x), out = at::empty_like(x);
  const at::Tensor other = added.contiguous();
  kernels().rms_norm(
      {element_of(x), x.const_data_ptr(), other.const_data_ptr(), weight.value.const_data_ptr(),
       static_cast<float>(eps), x.size(0), x.size(1), sum.mutable_data_ptr(), out.mutable_data_ptr()},
      stream(x.device()));
  residual = sum;
  return out;
}

at::Tensor qk_norm(const at::Tensor& qkv, const Weight& q_weight, const Weight& k_weight,
                   const AttentionDims& dims, double eps) {
  return run(
      qkv.contiguous(),
      [&q_weight, &k_weight, dims, eps](const at::Tensor& x) {
        const at::Tensor out = at::empty_like(x);
        kernels().qk_norm(
            {kernel_shape(dims), element_of(x), x.const_data_ptr(), q_weight.value.const_data_ptr(),
             k_weight.value.const_data_ptr(), static_cast<float>(eps), x.size(0), out.mutable_data_ptr()},
            stream(x.device()));
        return out;
      },
      [&q_weight, &k_weight, dims, eps](const at::Tensor& x) {
        return reference::qk_norm(x, leaf_of(q_weight), leaf_of(k_weight), dims, eps);
      });
}

at::Tensor silu_mul(const at::Tensor& gate_up) {
  return run(
      gate_up.contiguous(),
      [](const at::Tensor& x) {
        const at::Tensor out = at::empty({x.size(0), x.size(1) / 2}, x.options());
        kernels().silu_mul(
            {element_of(x), x.const_data_ptr(), x.size(0), out.size(1), out.mutable_data_ptr()},
            stream(x.device()));
        return out;
      },
      [](const at::Tensor& x) { return reference::silu_mul(x); });
}

at::Tensor attention_packed(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  check_known(dims);
  return run(
      qkv.contiguous(),
      [dims, device = plan.device](const at::Tensor& x) { return packed_by_kernel(x, dims, *device); },
      [dims, plan](const at::Tensor& x) { return packed_by_tensors(x, dims, plan); });
}

at::Tensor ring_attention(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  check_known(dims);
  return run(
      qkv.contiguous(), [dims, plan](const at::Tensor& x) { return ring_by_kernel(x, dims, plan); },
      [dims, plan](const at::Tensor& x) { return ring_by_tensors(x, dims, plan); });
}

at::Tensor attention_paged(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan,
                           LayerKv& kv) {
  check_known(dims);
  const int64_t q_width = dims.heads * dims.head_dim;
  const at::Tensor q = at::empty({qkv.size(0), q_width}, qkv.options());
  const DeviceBatch& batch = *plan.device;
  const GpuRotary rotary = rotary_to_slots(qkv, dims, batch.positions_T, batch.rope, q, kv,
                                           batch.slots_T.const_data_ptr<int32_t>());
  kernels().rotary(rotary, stream(qkv.device()));
  return attend(rotary, q, q_width, batch);
}

SoftmaxStats softmax_stats(const at::Tensor& logits, const at::Tensor& inverse_temperature) {
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  static_assert(sizeof(SoftmaxRow) == 4 * sizeof(int32_t) && sizeof(ChunkStats) == 4 * sizeof(int32_t));
  const auto words = logits.options().dtype(at::kInt);
  const at::Tensor chunks = at::empty({rows, vocab_chunks(vocab), 4}, words),
                   stats = at::empty({rows, 4}, words);
  kernels().softmax({logits.const_data_ptr<float>(), rows, vocab,
                     inverse_temperature.defined() ? inverse_temperature.const_data_ptr<float>() : nullptr,
                     static_cast<ChunkStats*>(chunks.mutable_data_ptr()),
                     static_cast<SoftmaxRow*>(stats.mutable_data_ptr())},
                    stream(logits.device()));
  return {stats, chunks};
}

}  // namespace trireme::models::device
