#include "trainer/models/ops.h"

#include <torch/csrc/autograd/custom_function.h>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "trainer/models/attention_runs.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/packed_linear.h"
#include "trainer/models/row_blocks.h"
#include "trainer/models/weight_gradient.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

Element element_of(const at::Tensor& x) {
  return models::element_of(x.scalar_type());
}

// The address of the element that stands `at` places from the first.
void* element(const at::Tensor& x, int64_t at) {
  return static_cast<char*>(x.data_ptr()) + at * x.element_size();
}

// A Weight outlives every graph made from it (the decoder owns it), so a graph keeps its address.
int64_t address_of(const Weight* weight) {
  return reinterpret_cast<int64_t>(weight);
}
const Weight* weight_at(const c10::IValue& address) {
  return reinterpret_cast<const Weight*>(address.toInt());
}

struct EmbeddingFunction : Function<EmbeddingFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& anchor, const Weight* table,
                            const at::Tensor& tokens) {
    (void)anchor;  // an empty tensor that requires gradients: it makes autograd record what follows
    ctx->saved_data["table"] = address_of(table);
    ctx->save_for_backward({tokens});
    return at::embedding(table->value, tokens);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Weight* table = weight_at(ctx->saved_data["table"]);
    table->gradient.index_add_(0, ctx->get_saved_variables()[0], grads[0].to(at::kFloat));
    return {at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct LinearFunction : Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Weight* weight,
                            const Weight* bias) {
    ctx->saved_data["weight"] = address_of(weight);
    ctx->saved_data["bias"] = address_of(bias);
    ctx->save_for_backward({x});
    return weight->times(x, bias, x.scalar_type());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Weight* weight = weight_at(ctx->saved_data["weight"]);
    const Weight* bias = weight_at(ctx->saved_data["bias"]);
    const at::Tensor grad = grads[0].contiguous();
    weight->accumulate(grad, ctx->get_saved_variables()[0]);
    if (bias && bias->value.defined()) bias->gradient.add_(grad.sum(0, false, at::kFloat));
    return {weight->back(grad), at::Tensor(), at::Tensor()};
  }
};

struct RmsNormFunction : Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Weight* weight, double eps) {
    const at::Tensor out = at::empty_like(x);
    const at::Tensor inverse = at::empty({x.size(0)}, at::kFloat);
    const int64_t dim = x.size(1);
    for_rows(x.size(0), dim, [&](int64_t begin, int64_t end) {
      cpu_kernels().rms_norm(element_of(x), element(x, begin * dim), weight->value.const_data_ptr(),
                             static_cast<float>(eps), end - begin, dim, element(out, begin * dim),
                             inverse.mutable_data_ptr<float>() + begin);
    });
    ctx->saved_data["weight"] = address_of(weight);
    ctx->save_for_backward({x, inverse});
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Weight* weight = weight_at(ctx->saved_data["weight"]);
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &inverse = saved[1];
    const at::Tensor grad = grads[0].contiguous(), grad_x = at::empty_like(x);
    const int64_t dim = x.size(1);
    add_over_rows(x.size(0), dim, weight->gradient, [&](int64_t begin, int64_t end, float* sums) {
      const int64_t at = begin * dim;
      cpu_kernels().rms_norm_backward(element_of(x), element(x, at), weight->value.const_data_ptr(),
                                      inverse.const_data_ptr<float>() + begin, element(grad, at), end - begin,
                                      dim, element(grad_x, at), sums);
    });
    return {grad_x, at::Tensor(), at::Tensor()};
  }
};

// The heads of a row of qkv are rows of head_dim: q's with one weight, k's with another.
struct QkNormFunction : Function<QkNormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, const Weight* q_weight,
                            const Weight* k_weight, const AttentionDims& dims, double eps) {
    const int64_t normed_heads = dims.heads + dims.kv_heads;
    const at::Tensor out = qkv.clone();
    const at::Tensor inverse = at::empty({qkv.size(0), normed_heads}, at::kFloat);
    const auto norm = [&](int64_t row, int64_t head, int64_t heads, const Weight* weight) {
      const int64_t at = row * qkv.size(1) + head * dims.head_dim;
      cpu_kernels().rms_norm(element_of(qkv), element(qkv, at), weight->value.const_data_ptr(),
                             static_cast<float>(eps), heads, dims.head_dim, element(out, at),
                             inverse.mutable_data_ptr<float>() + row * normed_heads + head);
    };
    for_rows(qkv.size(0), qkv.size(1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        norm(row, 0, dims.heads, q_weight);
        norm(row, dims.heads, dims.kv_heads, k_weight);
      }
    });
    ctx->saved_data["q_weight"] = address_of(q_weight);
    ctx->saved_data["k_weight"] = address_of(k_weight);
    ctx->saved_data["heads"] = dims.heads;
    ctx->saved_data["kv_heads"] = dims.kv_heads;
    ctx->saved_data["head_dim"] = dims.head_dim;
    ctx->save_for_backward({qkv, inverse});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &qkv = saved[0], &inverse = saved[1];
    const AttentionDims dims{ctx->saved_data["heads"].toInt(), ctx->saved_data["kv_heads"].toInt(),
                             ctx->saved_data["head_dim"].toInt()};
    const at::Tensor grad = grads[0].contiguous(), result = grad.clone();  // v's as it is
    const auto retreat = [&](int64_t first_head, int64_t heads, const Weight* weight) {
      add_over_rows(qkv.size(0), dims.head_dim, weight->gradient,
                    [&](int64_t begin, int64_t end, float* sums) {
                      for (int64_t row = begin; row < end; ++row) {
                        const int64_t at = row * qkv.size(1) + first_head * dims.head_dim;
                        cpu_kernels().rms_norm_backward(
                            element_of(qkv), element(qkv, at), weight->value.const_data_ptr(),
                            inverse.const_data_ptr<float>() + row * inverse.size(1) + first_head,
                            element(grad, at), heads, dims.head_dim, element(result, at), sums);
                      }
                    });
    };
    retreat(0, dims.heads, weight_at(ctx->saved_data["q_weight"]));
    retreat(dims.heads, dims.kv_heads, weight_at(ctx->saved_data["k_weight"]));
    return {result, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct SiluMulFunction : Function<SiluMulFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up) {
    const int64_t dim = gate_up.size(1) / 2;
    const at::Tensor out = at::empty({gate_up.size(0), dim}, gate_up.options());
    for_rows(gate_up.size(0), 2 * dim, [&](int64_t begin, int64_t end) {
      cpu_kernels().silu_mul(element_of(gate_up), element(gate_up, begin * 2 * dim), end - begin, dim,
                             element(out, begin * dim));
    });
    ctx->save_for_backward({gate_up});
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor gate_up = ctx->get_saved_variables()[0], grad = grads[0].contiguous();
    const at::Tensor result = at::empty_like(gate_up);
    const int64_t dim = gate_up.size(1) / 2;
    for_rows(gate_up.size(0), 2 * dim, [&](int64_t begin, int64_t end) {
      cpu_kernels().silu_mul_backward(element_of(gate_up), element(gate_up, begin * 2 * dim),
                                      element(grad, begin * dim), end - begin, dim,
                                      element(result, begin * 2 * dim));
    });
    return {result};
  }
};

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

AttentionShape kernel_shape(const AttentionDims& dims) {
  return {static_cast<int32_t>(dims.heads), static_cast<int32_t>(dims.kv_heads),
          static_cast<int32_t>(dims.head_dim)};
}

// What is rotated and where it goes is left to the caller.
RotaryTask rotary_task(const at::Tensor& qkv, const AttentionDims& dims, const BatchPlan& plan) {
  RotaryTask task{};
  task.shape = kernel_shape(dims);
  task.element = element_of(qkv);
  task.qkv = qkv.const_data_ptr();
  task.qkv_stride = qkv.stride(0);
  task.rows = qkv.size(0);
  task.positions = plan.positions_T.const_data_ptr<int32_t>();
  task.table = plan.rope.const_data_ptr<float>();
  return task;
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
    // q and k rotated, v as it is, in one buffer: keys and values then share a stride.
    const at::Tensor rotated = at::empty_like(qkv);
    RotaryTask rotary = rotary_task(qkv, dims, *plan);
    rotary.q = rotated.mutable_data_ptr();
    rotary.keys = element(rotated, dims.heads * dims.head_dim);
    rotary.values = element(rotated, (dims.heads + dims.kv_heads) * dims.head_dim);
    rotary.q_stride = rotary.kv_stride = rotated.stride(0);
    run_rotary(rotary);
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

bool recording(const at::Tensor& x) {
  return at::GradMode::is_enabled() && x.requires_grad();
}

}  // namespace

at::Tensor Weight::times(const at::Tensor& x, const Weight* bias, at::ScalarType out) const {
  const at::Tensor added = bias ? bias->value : at::Tensor();
  if (packed) return packed_linear(x, *packed, added, out);
  if (x.is_cpu()) return linear_packed_for_call(x, value, added, out);
  // On a GPU logits keep the product's fp32 sums.
  if (x.is_cuda() && out == at::kFloat && x.scalar_type() != at::kFloat && !added.defined())
    return at::mm(x, value.t(), at::kFloat);
  return at::linear(x, value, added).to(out);
}

at::Tensor Weight::back(const at::Tensor& grad_y) const {
  // Packing the matrix must be worth its while.
  if (packed && grad_y.size(0) >= 256) return packed_grad_x(grad_y, value, grad_y.scalar_type());
  return at::mm(grad_y, value);
}

void Weight::accumulate(const at::Tensor& grad_y, const at::Tensor& x) const {
  if (grad_y.is_cpu())
    add_weight_gradient(grad_y, x.stride(1) == 1 ? x : x.contiguous(), gradient);
  else if (grad_y.scalar_type() == at::kFloat)
    gradient.addmm_(grad_y.t(), x);
  else
    gradient.add_(at::mm(grad_y.t(), x));
}

at::Tensor embedding(const Weight& table, const BatchPlan& plan, bool train) {
  if (!train) return at::embedding(table.value, plan.tokens_T);
  TRIREME_CHECK(table.gradient.defined(), "a decoder without gradients cannot train");
  const at::Tensor anchor = at::empty({0}, at::kFloat).requires_grad_(true);
  return EmbeddingFunction::apply(anchor, &table, plan.tokens_T);
}

at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight* bias) {
  if (recording(x)) return LinearFunction::apply(x, &weight, bias);
  return weight.times(x, bias, x.scalar_type());
}

at::Tensor rms_norm(const at::Tensor& x, const Weight& weight, double eps) {
  if (device::computes(x)) return device::rms_norm(x, weight, eps);
  return RmsNormFunction::apply(x.contiguous(), &weight, eps);
}

at::Tensor add_rms_norm(at::Tensor& residual, const at::Tensor& added, const Weight& weight, double eps) {
  if (device::computes(residual) && !recording(residual) && !recording(added))
    return device::add_rms_norm(residual, added, weight, eps);
  residual = residual + added;
  return rms_norm(residual, weight, eps);
}

at::Tensor qk_norm(const at::Tensor& qkv, const Weight& q_weight, const Weight& k_weight,
                   const AttentionDims& dims, double eps) {
  if (device::computes(qkv)) return device::qk_norm(qkv, q_weight, k_weight, dims, eps);
  return QkNormFunction::apply(qkv.contiguous(), &q_weight, &k_weight, dims, eps);
}

at::Tensor silu_mul(const at::Tensor& gate_up) {
  if (device::computes(gate_up)) return device::silu_mul(gate_up);
  return SiluMulFunction::apply(gate_up.contiguous());
}

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
  RotaryTask rotary = rotary_task(qkv, dims, plan);
  rotary.q = q.mutable_data_ptr();
  rotary.q_stride = q_width;
  rotary.keys = kv.keys.mutable_data_ptr();
  rotary.values = kv.values.mutable_data_ptr();
  rotary.kv_stride = kv_width;
  rotary.slots = plan.batch->slots.data();
  run_rotary(rotary);
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
