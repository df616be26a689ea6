#include "trainer/models/ops.h"

#include <torch/csrc/autograd/custom_function.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include "runtime/base/error.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/kernel_arguments.h"
#include "trainer/models/packed_linear.h"
#include "trainer/models/row_blocks.h"
#include "trainer/models/weight_gradient.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

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

}  // namespace trireme::models
