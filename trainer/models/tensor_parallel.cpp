#include "trainer/models/tensor_parallel.h"

#include <torch/csrc/autograd/custom_function.h>

#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include "runtime/base/error.h"
#include "trainer/models/tensor_view.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::vector<int64_t> elements_of_ranks(int64_t rows, int64_t columns, int num_ranks) {
  std::vector<int64_t> counts = rows_of_ranks(rows, num_ranks);
  for (int64_t& count : counts) count *= columns;
  return counts;
}

at::Tensor gathered(const at::Tensor& mine, comm::Communicator& group, int64_t rows) {
  const at::Tensor in = mine.contiguous(), all = at::empty({rows, mine.size(1)}, mine.options());
  group.all_gather_v(view_of(in), view_of(all), elements_of_ranks(rows, mine.size(1), group.size()));
  return all;
}

at::Tensor scattered(const at::Tensor& part, comm::Communicator& group) {
  const at::Tensor in = part.contiguous();
  const auto rows = rows_of_ranks(part.size(0), group.size());
  const at::Tensor mine = at::empty({rows[group.rank()], part.size(1)}, part.options());
  group.reduce_scatter_v(view_of(in), view_of(mine),
                         elements_of_ranks(part.size(0), part.size(1), group.size()));
  return mine;
}

comm::Communicator& group_at(const c10::IValue& address) {
  return *reinterpret_cast<comm::Communicator*>(address.toInt());
}
const Weight* weight_at(const c10::IValue& address) {
  return reinterpret_cast<const Weight*>(address.toInt());
}

struct GatherRowsFunction : Function<GatherRowsFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& mine, comm::Communicator* group,
                            int64_t rows) {
    ctx->saved_data["group"] = reinterpret_cast<int64_t>(group);
    return gathered(mine, *group, rows);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {scattered(grads[0], group_at(ctx->saved_data["group"])), at::Tensor(), at::Tensor()};
  }
};

struct ScatterSumFunction : Function<ScatterSumFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& part, comm::Communicator* group) {
    ctx->saved_data["group"] = reinterpret_cast<int64_t>(group);
    ctx->saved_data["rows"] = part.size(0);
    return scattered(part, *group);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {gathered(grads[0], group_at(ctx->saved_data["group"]), ctx->saved_data["rows"].toInt()),
            at::Tensor()};
  }
};

struct EmbeddingPartFunction : Function<EmbeddingPartFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& anchor, const Weight* piece,
                            int64_t first, const at::Tensor& tokens) {
    (void)anchor;  // an empty tensor that requires gradients: it makes autograd record what follows
    const at::Tensor local = tokens.to(at::kLong) - first;
    const at::Tensor absent = local.lt(0).logical_or(local.ge(piece->value.size(0)));
    const at::Tensor safe = local.masked_fill(absent, 0);
    ctx->saved_data["piece"] = reinterpret_cast<int64_t>(piece);
    ctx->save_for_backward({safe, absent});
    return at::embedding(piece->value, safe).masked_fill_(absent.unsqueeze(1), 0);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor grad = grads[0].to(at::kFloat).masked_fill(saved[1].unsqueeze(1), 0);
    weight_at(ctx->saved_data["piece"])->gradient.index_add_(0, saved[0], grad);
    return {at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct AddBiasFunction : Function<AddBiasFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Weight* bias) {
    ctx->saved_data["bias"] = reinterpret_cast<int64_t>(bias);
    return x + bias->value;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    weight_at(ctx->saved_data["bias"])->gradient.add_(grads[0].sum(0, false, at::kFloat));
    return {grads[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor gather_rows(const at::Tensor& mine, const TensorParallel& tp, int64_t rows) {
  return GatherRowsFunction::apply(mine, tp.group, rows);
}

at::Tensor scatter_sum(const at::Tensor& part, const TensorParallel& tp) {
  return ScatterSumFunction::apply(part, tp.group);
}

at::Tensor sum_over_ranks(const at::Tensor& part, const TensorParallel& tp) {
  const at::Tensor sum = part.contiguous();
  tp.group->all_reduce(view_of(sum));
  return sum;
}

at::Tensor embedding_part(const Weight& piece, int64_t first, const BatchPlan& plan, bool train) {
  const at::Tensor anchor = at::empty({0}, piece.value.options().dtype(at::kFloat)).requires_grad_(train);
  return EmbeddingPartFunction::apply(anchor, &piece, first, plan.tokens_T);
}

at::Tensor add_bias(const at::Tensor& x, const Weight& bias) {
  return AddBiasFunction::apply(x, &bias);
}

at::Tensor gather_columns(const at::Tensor& mine, const TensorParallel& tp,
                          const std::vector<int64_t>& pieces) {
  const int64_t rows = mine.size(0), vocab = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
  std::vector<int64_t> counts;
  for (const int64_t piece : pieces) counts.push_back(rows * piece);
  const at::Tensor in = mine.contiguous(), parts = at::empty({rows * vocab}, mine.options());
  tp.group->all_gather_v(view_of(in), view_of(parts), counts);
  const at::Tensor all = at::empty({rows, vocab}, mine.options());
  int64_t column = 0;
  for (const int64_t piece : pieces) {
    all.narrow(1, column, piece).copy_(parts.narrow(0, rows * column, rows * piece).view({rows, piece}));
    column += piece;
  }
  return all;
}

}  // namespace trireme::models
