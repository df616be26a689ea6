// Log-probabilities of chosen tokens over a large vocabulary, in chunks of rows: the forward pass keeps a
// log-sum-exp per row, the backward pass makes each chunk's logits again.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "runtime/base/error.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/device_ops.h"
#include "trainer/models/ops.h"
#include "trainer/models/packed_linear.h"
#include "trainer/models/row_blocks.h"
#include "trainer/models/row_index.h"
#include "trainer/models/softmax_merge.h"
#include "trainer/models/tensor_view.h"
#include "trainer/models/weight_gradient.h"

namespace trireme::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// logits / temperature in fp32, with each row's log-sum-exp and entropy.
struct Softmax {
  at::Tensor scaled, lse, entropy;
};

Softmax softmax_of(const at::Tensor& hidden, const Weight& head, double temperature) {
  Softmax result;
  result.scaled = head.times(hidden, nullptr, at::kFloat);
  if (device::computes(result.scaled)) {
    result.scaled = (result.scaled * static_cast<float>(1.0 / temperature)).contiguous();
    const device::SoftmaxStats stats = device::softmax_stats(result.scaled, at::Tensor());
    result.lse = stats.log_sum_exp();
    result.entropy = stats.entropy();
  } else {
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
  }
  return result;
}

// What pieces of the vocabulary say of each row and of the chosen tokens, brought together: lse and entropy
// [R], and chosen [N] in their places. `mine` says of each pair whether its token is in this piece.
void merge_pieces(const VocabularyPiece& piece, at::Tensor& lse, at::Tensor& entropy, at::Tensor& chosen_N,
                  const at::Tensor& mine_N) {
  const int64_t rows = lse.size(0), pairs = chosen_N.size(0), words = 2 * rows + pairs;
  const at::Tensor said = at::cat({lse, entropy, chosen_N.masked_fill(mine_N.logical_not(), 0)});
  const at::Tensor all = at::empty({piece.group->size(), words}, said.options());
  piece.group->all_gather(view_of(said), view_of(all));
  const at::Tensor host = all.cpu(), stats = at::empty({2, rows}, at::kFloat);
  const auto* from = host.const_data_ptr<float>();
  auto* to = stats.mutable_data_ptr<float>();
  std::vector<RowStats> of_row(static_cast<size_t>(piece.group->size()));
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t p = 0; p < of_row.size(); ++p)
      of_row[p] = {from[static_cast<int64_t>(p) * words + r],
                   from[static_cast<int64_t>(p) * words + rows + r]};
    const RowStats row = merged(of_row);
    to[r] = row.lse;
    to[rows + r] = row.entropy;
  }
  lse.copy_(stats[0]);
  entropy.copy_(stats[1]);
  chosen_N.copy_(all.narrow(1, 2 * rows, pairs).sum(0));  // all but one are zeros
}

// Each row's (token, gradient) pairs, tokens ascending.
class PairsOfRows {
 public:
  PairsOfRows(const at::Tensor& place_N, const at::Tensor& tokens_N, const at::Tensor& grad_N,
              int64_t num_rows)
      : begin_(static_cast<size_t>(num_rows) + 1) {
    const at::Tensor grads = grad_N.contiguous();
    const int64_t *place = place_N.const_data_ptr<int64_t>(), *tokens = tokens_N.const_data_ptr<int64_t>();
    std::vector<int64_t> order(static_cast<size_t>(place_N.size(0)));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::pair(place[a], tokens[a]) < std::pair(place[b], tokens[b]);
    });
    for (const int64_t pair : order) {
      ++begin_[static_cast<size_t>(place[pair]) + 1];
      pairs_.push_back({tokens[pair], grads.const_data_ptr<float>()[pair]});
    }
    for (size_t r = 1; r < begin_.size(); ++r) begin_[r] += begin_[r - 1];
  }

  /// Those with a token in [word, word + words), counted from there.
  std::vector<ChosenToken> of(int64_t row, int64_t word, int64_t words) const {
    std::vector<ChosenToken> chosen;
    for (size_t i = begin_[static_cast<size_t>(row)]; i < begin_[static_cast<size_t>(row) + 1]; ++i)
      if (pairs_[i].column >= word && pairs_[i].column < word + words)
        chosen.push_back({pairs_[i].column - word, pairs_[i].gradient});
    return chosen;
  }

 private:
  std::vector<size_t> begin_;
  std::vector<ChosenToken> pairs_;
};

struct LogProbFunction : Function<LogProbFunction> {
  // -> {log_probs_N, entropy_N}
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden, const Weight* head,
                               const RowIndex& index, const at::Tensor& all_tokens_N, double temperature,
                               bool entropy_gradient, int64_t chunk_rows, const VocabularyPiece& piece) {
    const at::Device device = hidden.device();
    // From here on tokens are counted from the piece's first; those of other pieces are outside its words.
    const at::Tensor tokens_N = all_tokens_N - piece.first;
    const int64_t words = head->value.size(0);
    const at::Tensor mine_N = tokens_N.ge(0).logical_and(tokens_N.lt(words));
    const at::Tensor safe_N = tokens_N.clamp(0, words - 1);
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
          (place_N.index_select(0, pairs) - begin) * words + safe_N.index_select(0, pairs);
      chosen_N.index_copy_(0, pairs, softmax.scaled.view({-1}).index_select(0, flat));
    }
    if (piece.group) merge_pieces(piece, lse, entropy, chosen_N, mine_N);
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

  // On the CPU, in blocks of rows and of the vocabulary, each of which is read and added to once for its
  // rows.
  static at::Tensor blockwise_backward(const Weight& head, double temperature, const variable_list& saved,
                                       const at::Tensor& grad_N, const at::Tensor& row_gradient,
                                       const at::Tensor& entropy_gradient) {
    constexpr int64_t kRows = 1024, kWords = 2048;
    const at::Tensor &hidden = saved[0], &rows = saved[1], &tokens_N = saved[3];
    const float *lse = saved[4].const_data_ptr<float>(), *entropy = saved[5].const_data_ptr<float>();
    const PairsOfRows pairs(saved[2], tokens_N, grad_N, rows.size(0));
    const bool narrow = hidden.scalar_type() == at::kBFloat16;
    at::Tensor grad_hidden = at::zeros_like(hidden);
    for (int64_t row = 0; row < rows.size(0); row += kRows) {
      const at::Tensor index = rows.narrow(0, row, std::min(kRows, rows.size(0) - row));
      const at::Tensor x = hidden.index_select(0, index);
      const at::Tensor grad_x = at::zeros({x.size(0), x.size(1)}, at::kFloat);
      for (int64_t word = 0; word < head.value.size(0); word += kWords) {
        const int64_t words = std::min(kWords, head.value.size(0) - word);
        const at::Tensor logits = packed_columns(x, *head.packed, word, words);
        const at::Tensor grad = narrow ? at::empty({x.size(0), words}, hidden.options()) : logits;
        for_rows(x.size(0), words, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const auto chosen = pairs.of(row + r, word, words);
            cpu_kernels().softmax_backward(
                {.logits = logits.mutable_data_ptr<float>() + r * words,
                 .columns = words,
                 .inverse_temperature = static_cast<float>(1.0 / temperature),
                 .lse = lse[row + r],
                 .entropy = entropy[row + r],
                 .gradient = row_gradient.const_data_ptr<float>()[row + r],
                 .entropy_gradient =
                     entropy_gradient.defined() ? entropy_gradient.const_data_ptr<float>()[row + r] : 0.0f,
                 .chosen = chosen.data(),
                 .num_chosen = static_cast<int64_t>(chosen.size()),
                 .narrow =
                     narrow ? reinterpret_cast<uint16_t*>(grad.mutable_data_ptr()) + r * words : nullptr});
          }
        });
        add_weight_gradient(grad, x, head.gradient.narrow(0, word, words));
        grad_x.add_(packed_grad_x(grad, head.value.narrow(0, word, words), at::kFloat));
      }
      grad_hidden.index_copy_(0, index, grad_x.to(hidden.scalar_type()));
    }
    return grad_hidden;
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
    if (hidden.is_cpu() && head->packed)
      return {blockwise_backward(*head, temperature, saved, grad_N, weight_of_row, entropy_weight),
              at::Tensor(),
              at::Tensor(),
              at::Tensor(),
              at::Tensor(),
              at::Tensor(),
              at::Tensor(),
              at::Tensor()};
    const int64_t words = head->value.size(0);
    const at::Tensor safe_N = tokens_N.clamp(0, words - 1);
    const at::Tensor here_N = grad_N.masked_fill(tokens_N.lt(0).logical_or(tokens_N.ge(words)), 0);
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
          (place_N.index_select(0, pairs) - begin) * words + safe_N.index_select(0, pairs);
      grad_logits.view({-1}).index_add_(0, flat, here_N.index_select(0, pairs));
      grad_logits.mul_(1.0 / temperature);
      const at::Tensor narrow = grad_logits.to(hidden.scalar_type());
      head->accumulate(narrow, hidden_chunk);
      grad_hidden.index_copy_(0, chunk, head->back(narrow));
    }
    return {grad_hidden,  at::Tensor(), at::Tensor(), at::Tensor(),
            at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

int64_t log_prob_chunk_rows(int64_t vocab_size) {
  return std::max<int64_t>(64, (4 << 20) / vocab_size);
}

LogProbs token_log_probs(const at::Tensor& hidden, const Weight& head, std::span<const int32_t> rows,
                         std::span<const int32_t> tokens, double temperature, bool entropy_gradient,
                         int64_t chunk_rows, const VocabularyPiece& piece) {
  TRIREME_CHECK(rows.size() == tokens.size(), "{} rows but {} tokens", rows.size(), tokens.size());
  TRIREME_CHECK(temperature > 0, "temperature {} must be positive", temperature);
  for (const int32_t token : tokens)
    TRIREME_CHECK(token >= 0 && (piece.group || token < head.value.size(0)),
                  "token {} is outside the vocabulary of {}", token, head.value.size(0));
  const RowIndex index(rows);
  const std::vector<int64_t> wide(tokens.begin(), tokens.end());
  const auto results = LogProbFunction::apply(hidden, &head, index, int64_tensor(wide, hidden.device()),
                                              temperature, entropy_gradient, chunk_rows, piece);
  return {results[0], results[1]};
}

}  // namespace trireme::models
