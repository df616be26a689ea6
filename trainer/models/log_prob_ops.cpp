// Log-probabilities of chosen tokens over a large vocabulary, in chunks of rows: the forward pass keeps a
// log-sum-exp per row, the backward pass makes each chunk's logits again.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/ops.h"
#include "trainer/models/row_blocks.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// The distinct rows, ascending, and for each pair its place among them.
struct RowIndex {
  std::vector<int64_t> distinct;
  std::vector<int64_t> place;

  explicit RowIndex(std::span<const int32_t> rows) : distinct(rows.begin(), rows.end()), place(rows.size()) {
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (size_t i = 0; i < rows.size(); ++i)
      place[i] = std::lower_bound(distinct.begin(), distinct.end(), rows[i]) - distinct.begin();
  }
};

at::Tensor int64_tensor(const std::vector<int64_t>& values, at::Device device) {
  return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::TensorOptions().dtype(at::kLong))
      .clone()
      .to(device);
}

// logits / temperature in fp32, with each row's log-sum-exp and entropy.
struct Softmax {
  at::Tensor scaled, lse, entropy;
};

Softmax softmax_of(const at::Tensor& hidden, const Weight& head, double temperature) {
  Softmax result;
  result.scaled = head.times(hidden, nullptr, at::kFloat);
  if (result.scaled.is_cpu()) {
    result.scaled = result.scaled.contiguous();
    result.lse = at::empty({hidden.size(0)}, at::kFloat);
    result.entropy = at::empty({hidden.size(0)}, at::kFloat);
    const int64_t vocab = result.scaled.size(1);
    for_rows(hidden.size(0), vocab, [&](int64_t begin, int64_t end) {
      cpu_kernels().softmax_stats(result.scaled.mutable_data_ptr<float>() + begin * vocab,
                                  static_cast<float>(1.0 / temperature), end - begin, vocab,
                                  result.lse.mutable_data_ptr<float>() + begin,
                                  result.entropy.mutable_data_ptr<float>() + begin);
    });
  } else {
    result.scaled = result.scaled * static_cast<float>(1.0 / temperature);
    result.lse = at::logsumexp(result.scaled, 1);
    const at::Tensor probabilities = (result.scaled - result.lse.unsqueeze(1)).exp();
    result.entropy = result.lse - (probabilities * result.scaled).sum(1);
  }
  return result;
}

struct LogProbFunction : Function<LogProbFunction> {
  // -> {log_probs_N, entropy_N}
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden, const Weight* head,
                               const RowIndex& index, const at::Tensor& tokens_N, double temperature,
                               bool entropy_gradient, int64_t chunk_rows) {
    const at::Device device = hidden.device();
    const at::Tensor rows = int64_tensor(index.distinct, device);
    const at::Tensor place_N = int64_tensor(index.place, device);
    const auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
    const int64_t num_rows = rows.size(0);
    at::Tensor lse = at::empty({num_rows}, floats), entropy = at::empty({num_rows}, floats);
    at::Tensor chosen_N = at::empty({tokens_N.size(0)}, floats);
    // Pairs sorted by place, so that each chunk's pairs are a range.
    const at::Tensor order = place_N.argsort(true, 0, false);
    const at::Tensor sorted_place = place_N.index_select(0, order).cpu();
    const int64_t* sorted = sorted_place.const_data_ptr<int64_t>();
    int64_t pair = 0;
    for (int64_t begin = 0; begin < num_rows; begin += chunk_rows) {
      const int64_t length = std::min(chunk_rows, num_rows - begin);
      const Softmax softmax =
          softmax_of(hidden.index_select(0, rows.narrow(0, begin, length)), *head, temperature);
      lse.narrow(0, begin, length).copy_(softmax.lse);
      entropy.narrow(0, begin, length).copy_(softmax.entropy);
      const int64_t first = pair;
      while (pair < sorted_place.size(0) && sorted[pair] < begin + length) ++pair;
      const at::Tensor pairs = order.narrow(0, first, pair - first);
      const at::Tensor flat =
          (place_N.index_select(0, pairs) - begin) * softmax.scaled.size(1) + tokens_N.index_select(0, pairs);
      chosen_N.index_copy_(0, pairs, softmax.scaled.view({-1}).index_select(0, flat));
    }
    ctx->saved_data["head"] = reinterpret_cast<int64_t>(head);
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["entropy_gradient"] = entropy_gradient;
    ctx->saved_data["chunk_rows"] = chunk_rows;
    ctx->save_for_backward({hidden, rows, place_N, tokens_N, lse, entropy, order});
    at::Tensor log_probs_N = chosen_N - lse.index_select(0, place_N);
    at::Tensor entropy_N = entropy.index_select(0, place_N);
    if (!entropy_gradient) ctx->mark_non_differentiable({entropy_N});
    return {log_probs_N, entropy_N};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &hidden = saved[0], &rows = saved[1], &place_N = saved[2], &tokens_N = saved[3],
                     &lse = saved[4], &entropy = saved[5], &order = saved[6];
    const auto* head = reinterpret_cast<const Weight*>(ctx->saved_data["head"].toInt());
    const double temperature = ctx->saved_data["temperature"].toDouble();
    const bool entropy_gradient = ctx->saved_data["entropy_gradient"].toBool() && grads[1].defined();
    const int64_t chunk_rows = ctx->saved_data["chunk_rows"].toInt();
    const at::Tensor grad_N = grads[0].defined() ? grads[0] : at::zeros({tokens_N.size(0)}, lse.options());
    const int64_t num_rows = rows.size(0);
    const at::Tensor weight_of_row = at::zeros({num_rows}, lse.options()).index_add_(0, place_N, grad_N);
    at::Tensor entropy_weight;
    if (entropy_gradient)
      entropy_weight = at::zeros({num_rows}, lse.options()).index_add_(0, place_N, grads[1]);
    const at::Tensor sorted_place = place_N.index_select(0, order).cpu();
    const int64_t* sorted = sorted_place.const_data_ptr<int64_t>();
    at::Tensor grad_hidden = at::zeros_like(hidden);
    int64_t pair = 0;
    for (int64_t begin = 0; begin < num_rows; begin += chunk_rows) {
      const int64_t length = std::min(chunk_rows, num_rows - begin);
      const at::Tensor chunk = rows.narrow(0, begin, length);
      const at::Tensor hidden_chunk = hidden.index_select(0, chunk);
      const Softmax softmax = softmax_of(hidden_chunk, *head, temperature);
      // d log p(token) = onehot - p;  d entropy = -p (log p + entropy).
      const at::Tensor log_p = softmax.scaled - lse.narrow(0, begin, length).unsqueeze(1);
      at::Tensor grad_logits = log_p.exp();
      if (entropy_gradient) {
        const at::Tensor factor = -weight_of_row.narrow(0, begin, length).unsqueeze(1) -
                                  entropy_weight.narrow(0, begin, length).unsqueeze(1) *
                                      (log_p + entropy.narrow(0, begin, length).unsqueeze(1));
        grad_logits.mul_(factor);
      } else {
        grad_logits.mul_(-weight_of_row.narrow(0, begin, length).unsqueeze(1));
      }
      const int64_t first = pair;
      while (pair < sorted_place.size(0) && sorted[pair] < begin + length) ++pair;
      const at::Tensor pairs = order.narrow(0, first, pair - first);
      const at::Tensor flat =
          (place_N.index_select(0, pairs) - begin) * grad_logits.size(1) + tokens_N.index_select(0, pairs);
      grad_logits.view({-1}).index_add_(0, flat, grad_N.index_select(0, pairs));
      grad_logits.mul_(1.0 / temperature);
      const at::Tensor narrow = grad_logits.to(hidden.scalar_type());
      head->accumulate(narrow, hidden_chunk);
      grad_hidden.index_copy_(0, chunk, head->back(narrow));
    }
    return {grad_hidden, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

LogProbs token_log_probs(const at::Tensor& hidden, const Weight& head, std::span<const int32_t> rows,
                         std::span<const int32_t> tokens, double temperature, bool entropy_gradient,
                         int64_t chunk_rows) {
  TRIREME_CHECK(rows.size() == tokens.size(), "{} rows but {} tokens", rows.size(), tokens.size());
  TRIREME_CHECK(temperature > 0, "temperature {} must be positive", temperature);
  const RowIndex index(rows);
  const std::vector<int64_t> wide(tokens.begin(), tokens.end());
  const auto results = LogProbFunction::apply(hidden, &head, index, int64_tensor(wide, hidden.device()),
                                              temperature, entropy_gradient, chunk_rows);
  return {results[0], results[1]};
}

}  // namespace trireme::models
