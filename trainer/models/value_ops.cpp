// A critic's head: one number of a row.
#include <torch/csrc/autograd/custom_function.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "runtime/base/error.h"
#include "trainer/models/ops.h"
#include "trainer/models/row_index.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct ValueFunction : Function<ValueFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden, const Weight* head,
                            const Weight* bias, const RowIndex& index, bool gradients) {
    const at::Tensor rows = int64_tensor(index.distinct, hidden.device());
    const at::Tensor place_N = int64_tensor(index.place, hidden.device());
    // The bias is added in fp32, on every device.
    const at::Tensor values = head->times(hidden.index_select(0, rows), nullptr, at::kFloat).view({-1}) +
                              bias->value.to(at::kFloat);
    ctx->saved_data["head"] = reinterpret_cast<int64_t>(head);
    ctx->saved_data["bias"] = reinterpret_cast<int64_t>(bias);
    ctx->saved_data["gradients"] = gradients;
    ctx->save_for_backward({hidden, rows, place_N});
    return values.index_select(0, place_N);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &hidden = saved[0], &rows = saved[1], &place_N = saved[2];
    const at::Tensor grad_hidden = at::zeros_like(hidden);
    if (ctx->saved_data["gradients"].toBool()) {
      const auto* head = reinterpret_cast<const Weight*>(ctx->saved_data["head"].toInt());
      const auto* bias = reinterpret_cast<const Weight*>(ctx->saved_data["bias"].toInt());
      const at::Tensor of_rows =
          at::zeros({rows.size(0)}, grads[0].options()).index_add_(0, place_N, grads[0].contiguous());
      const at::Tensor grad = of_rows.to(hidden.scalar_type()).unsqueeze(1);
      head->accumulate(grad, hidden.index_select(0, rows));
      bias->gradient.add_(of_rows.sum());
      grad_hidden.index_copy_(0, rows, grad * head->value);
    }
    return {grad_hidden, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor row_values(const at::Tensor& hidden, const Weight& head, const Weight& bias,
                      std::span<const int32_t> rows, bool gradients) {
  TRIREME_CHECK(head.value.size(0) == 1 && bias.value.numel() == 1, "a head of {} numbers a row",
                head.value.size(0));
  return ValueFunction::apply(hidden, &head, &bias, RowIndex(rows), gradients);
}

}  // namespace trireme::models
