// Our CPU kernels against plain tensor arithmetic, values and gradients.
#include "trainer/models/ops.h"

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "trainer/models/packed_linear.h"
#include "trainer/models/reference_ops.h"

namespace trireme::models {
namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

at::Tensor leaf(const at::Tensor& x) {
  return x.detach().clone().requires_grad_(true);
}

Weight weight_of(const at::Tensor& value) {
  return {value, at::zeros(value.sizes(), at::kFloat)};
}

// Two groups of a prompt and three responses of different length, one of them longer than a key block.
ForwardBatch shared_prompt_batch() {
  ForwardBatch batch;
  const auto add = [&](int32_t position, int32_t length, std::vector<SlotSpan> prefix) {
    const auto row = static_cast<int32_t>(batch.tokens.size());
    prefix.push_back({row, length});
    batch.segments.push_back({row, length, position, prefix});
    for (int32_t i = 0; i < length; ++i) {
      batch.tokens.push_back((row * 7 + i * 3) % 11);
      batch.positions.push_back(position + i);
      batch.slots.push_back(row + i);
    }
    return SlotSpan{row, length};
  };
  for (const int32_t prompt_length : {5, 70}) {
    const SlotSpan prompt = add(0, prompt_length, {});
    for (const int32_t length : {1, 4, 90}) add(prompt_length, length, {prompt});
  }
  return batch;
}

struct Case {
  at::ScalarType dtype;
  int64_t heads, kv_heads, head_dim;
};

class Ops : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(1); }
};

class OpsOn : public Ops, public testing::WithParamInterface<Case> {};

TEST_P(OpsOn, AttentionMatchesPlainTensorsInValueAndGradient) {
  const Case c = GetParam();
  const ForwardBatch batch = shared_prompt_batch();
  const AttentionDims dims{c.heads, c.kv_heads, c.head_dim};
  BatchPlan plan;
  plan.batch = &batch;
  plan.positions_T =
      at::from_blob(const_cast<int32_t*>(batch.positions.data()), {batch.num_rows()}, at::kInt);
  const at::Tensor angles =
      at::arange(200, at::kFloat).unsqueeze(1) * (0.1 / (1.0 + at::arange(c.head_dim / 2, at::kFloat)));
  plan.rope = at::cat({angles.cos(), angles.sin()}, 1);

  const at::Tensor data = at::randn({batch.num_rows(), dims.qkv_width()}, at::kFloat).to(c.dtype);
  const at::Tensor grad = at::randn({batch.num_rows(), c.heads * c.head_dim}, at::kFloat).to(c.dtype);
  const at::Tensor ours_in = leaf(data), plain_in = leaf(data.to(at::kFloat));
  const at::Tensor ours = attention_packed(ours_in, dims, plan);

  const auto parts =
      plain_in.split_with_sizes({c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim}, 1);
  const auto heads = [&](const at::Tensor& x, int64_t n) {
    return x.view({batch.num_rows(), n, c.head_dim});
  };
  const at::Tensor plain =
      reference::attention(reference::rotary(heads(parts[0], c.heads), plan.positions_T, plan.rope),
                           reference::rotary(heads(parts[1], c.kv_heads), plan.positions_T, plan.rope),
                           heads(parts[2], c.kv_heads), batch.segments)
          .reshape({batch.num_rows(), c.heads * c.head_dim});
  // bf16: inputs, rotated keys and results are rounded to 8 bits.
  const double tolerance = c.dtype == at::kFloat ? 2e-5 : 6e-2;
  EXPECT_LT(largest_difference(ours, plain), tolerance);
  torch::autograd::backward({ours}, {grad});
  torch::autograd::backward({plain}, {grad.to(at::kFloat)});
  EXPECT_LT(largest_difference(ours_in.grad(), plain_in.grad()), 20 * tolerance);
}

TEST_F(Ops, AttentionsGradientIsTheSameForAnyNumberOfThreads) {
  const ForwardBatch batch = shared_prompt_batch();
  const AttentionDims dims{4, 2, 16};
  BatchPlan plan;
  plan.batch = &batch;
  plan.positions_T =
      at::from_blob(const_cast<int32_t*>(batch.positions.data()), {batch.num_rows()}, at::kInt);
  plan.rope = at::randn({200, 16}, at::kFloat);
  const at::Tensor data = at::randn({batch.num_rows(), dims.qkv_width()}, at::kFloat),
                   grad = at::randn({batch.num_rows(), 64}, at::kFloat);
  const int threads = at::get_num_threads();
  const auto gradient = [&](int count) {
    at::set_num_threads(count);
    const at::Tensor in = leaf(data);
    torch::autograd::backward({attention_packed(in, dims, plan)}, {grad});
    return in.grad();
  };
  const at::Tensor one = gradient(1), three = gradient(3);
  at::set_num_threads(threads);
  EXPECT_EQ(largest_difference(one, three), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, OpsOn,
                         testing::Values(Case{at::kFloat, 4, 4, 32}, Case{at::kFloat, 4, 2, 16},
                                         Case{at::kFloat, 7, 1, 64}, Case{at::kFloat, 2, 1, 10},
                                         Case{at::kFloat, 14, 1, 80}, Case{at::kFloat, 3, 3, 2},
                                         Case{at::kFloat, 2, 2, 128}, Case{at::kBFloat16, 14, 2, 64},
                                         Case{at::kBFloat16, 4, 2, 32}));

TEST_F(Ops, RmsNormMatchesPlainTensors) {
  for (const int64_t dim : {5, 64, 100}) {
    const at::Tensor data = at::randn({9, dim}, at::kFloat), scale = at::randn({dim}, at::kFloat),
                     grad = at::randn({9, dim}, at::kFloat);
    const Weight weight = weight_of(scale);
    const at::Tensor x = leaf(data), plain_x = leaf(data), plain_scale = leaf(scale);
    const at::Tensor ours = rms_norm(x, weight, 1e-6),
                     plain = reference::rms_norm(plain_x, plain_scale, 1e-6);
    EXPECT_LT(largest_difference(ours, plain), 1e-5);
    torch::autograd::backward({ours}, {grad});
    torch::autograd::backward({plain}, {grad});
    EXPECT_LT(largest_difference(x.grad(), plain_x.grad()), 1e-5);
    EXPECT_LT(largest_difference(weight.gradient, plain_scale.grad()), 1e-4);
  }
}

TEST_F(Ops, QkNormMatchesPlainTensorsAndLeavesValuesAlone) {
  const AttentionDims dims{6, 2, 10};
  const at::Tensor data = at::randn({9, dims.qkv_width()}, at::kFloat), q_scale = at::randn({10}, at::kFloat),
                   k_scale = at::randn({10}, at::kFloat), grad = at::randn({9, dims.qkv_width()}, at::kFloat);
  const Weight q_weight = weight_of(q_scale), k_weight = weight_of(k_scale);
  const at::Tensor x = leaf(data), plain_x = leaf(data), plain_q = leaf(q_scale), plain_k = leaf(k_scale);
  const at::Tensor ours = qk_norm(x, q_weight, k_weight, dims, 1e-6),
                   plain = reference::qk_norm(plain_x, plain_q, plain_k, dims, 1e-6);
  EXPECT_LT(largest_difference(ours, plain), 1e-5);
  EXPECT_EQ(largest_difference(ours.narrow(1, 80, 20), data.narrow(1, 80, 20)), 0.0);
  // One head against the definition.
  const at::Tensor head = data[3].narrow(0, 7 * 10, 10);  // the second of k
  EXPECT_LT(
      largest_difference(ours[3].narrow(0, 70, 10), head / (head.pow(2).mean() + 1e-6).sqrt() * k_scale),
      1e-5);
  torch::autograd::backward({ours}, {grad});
  torch::autograd::backward({plain}, {grad});
  EXPECT_LT(largest_difference(x.grad(), plain_x.grad()), 1e-5);
  EXPECT_LT(largest_difference(q_weight.gradient, plain_q.grad()), 1e-4);
  EXPECT_LT(largest_difference(k_weight.gradient, plain_k.grad()), 1e-4);
}

TEST_F(Ops, SiluMulMatchesPlainTensors) {
  at::Tensor data = at::randn({9, 2 * 37}, at::kFloat) * 4;
  data[0][0] = 100.0;  // where exp leaves fp32's comfort
  data[0][1] = -100.0;
  const at::Tensor grad = at::randn({9, 37}, at::kFloat);
  const at::Tensor x = leaf(data), plain_x = leaf(data);
  const at::Tensor ours = silu_mul(x), plain = reference::silu_mul(plain_x);
  EXPECT_LT(largest_difference(ours, plain), 2e-5);
  torch::autograd::backward({ours}, {grad});
  torch::autograd::backward({plain}, {grad});
  EXPECT_LT(largest_difference(x.grad(), plain_x.grad()), 2e-5);
}

TEST_F(Ops, LinearAddsItsWeightsGradientInPlace) {
  const at::Tensor matrix = at::randn({6, 5}, at::kFloat), bias = at::randn({6}, at::kFloat),
                   data = at::randn({8, 5}, at::kFloat);
  const Weight weight = weight_of(matrix), bias_weight = weight_of(bias);
  weight.gradient.fill_(1.0);
  const at::Tensor x = leaf(data), plain_x = leaf(data), plain_w = leaf(matrix), plain_b = leaf(bias);
  const at::Tensor grad = at::randn({8, 6}, at::kFloat);
  torch::autograd::backward({linear(x, weight, &bias_weight)}, {grad});
  torch::autograd::backward({at::linear(plain_x, plain_w, plain_b)}, {grad});
  EXPECT_LT(largest_difference(x.grad(), plain_x.grad()), 1e-5);
  EXPECT_LT(largest_difference(weight.gradient, plain_w.grad() + 1.0), 1e-5);
  EXPECT_LT(largest_difference(bias_weight.gradient, plain_b.grad()), 1e-5);
}

TEST_F(Ops, TokenLogProbsMatchLogSoftmaxForRepeatedRowsAndAnyChunk) {
  const int64_t vocab = 37;
  const double temperature = 0.7;
  const at::Tensor hidden = at::randn({10, 8}, at::kFloat), matrix = at::randn({vocab, 8}, at::kFloat);
  const std::vector<int32_t> rows{9, 3, 3, 0, 3, 7}, tokens{1, 2, 36, 0, 2, 20};
  const at::Tensor grad = at::randn({6}, at::kFloat), entropy_grad = at::randn({6}, at::kFloat);
  at::Tensor first;
  for (const bool entropy_gradient : {false, true})
    for (const int64_t chunk : {1, 2, 64}) {
      const Weight head = weight_of(matrix);
      const at::Tensor h = leaf(hidden), plain_h = leaf(hidden), plain_w = leaf(matrix);
      const LogProbs ours = token_log_probs(h, head, rows, tokens, temperature, entropy_gradient, chunk);
      const at::Tensor row_index =
          at::from_blob(const_cast<int32_t*>(rows.data()), {6}, at::kInt).to(at::kLong);
      const at::Tensor token_index =
          at::from_blob(const_cast<int32_t*>(tokens.data()), {6}, at::kInt).to(at::kLong);
      const at::Tensor all =
          at::log_softmax(at::linear(plain_h, plain_w).index_select(0, row_index) / temperature, 1);
      const at::Tensor plain = all.gather(1, token_index.unsqueeze(1)).squeeze(1);
      const at::Tensor plain_entropy = -(all.exp() * all).sum(1);
      EXPECT_LT(largest_difference(ours.log_probs_N, plain), 1e-5);
      EXPECT_LT(largest_difference(ours.entropy_N, plain_entropy), 1e-5);
      if (entropy_gradient) {
        torch::autograd::backward({ours.log_probs_N, ours.entropy_N}, {grad, entropy_grad});
        torch::autograd::backward({plain, plain_entropy}, {grad, entropy_grad});
      } else {
        torch::autograd::backward({ours.log_probs_N}, {grad});
        torch::autograd::backward({plain}, {grad});
      }
      EXPECT_LT(largest_difference(h.grad(), plain_h.grad()), 1e-4);
      EXPECT_LT(largest_difference(head.gradient, plain_w.grad()), 1e-4);
    }
}

// The way of a packed head, whose backward pass goes by blocks of rows and of the vocabulary: more than one
// of each here, in both dtypes, against full logits in double precision.
TEST_F(Ops, TokenLogProbsOfAPackedHeadMatchFullLogitsInDoublePrecision) {
  constexpr int64_t kVocab = 2100, kHidden = 40, kTexts = 1030;
  const double temperature = 0.8;
  std::vector<int32_t> rows, tokens;
  for (int32_t i = 0; i < 1500; ++i) {
    rows.push_back(i * 7 % kTexts);
    tokens.push_back(i % 5 == 0 ? 2099 : i * 13 % 2100);
  }
  rows[1] = rows[0], tokens[1] = tokens[0];  // the same pair twice
  const std::vector<int64_t> wide_rows(rows.begin(), rows.end()), wide_tokens(tokens.begin(), tokens.end());
  const auto index = [](const std::vector<int64_t>& values) {
    return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())},
                         at::kLong);
  };
  const at::Tensor grad = at::randn({1500}, at::kFloat), entropy_grad = at::randn({1500}, at::kFloat);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const bool entropy_gradient : {false, true}) {
      const at::Tensor hidden = at::randn({kTexts, kHidden}, at::kFloat).to(dtype),
                       matrix = (at::randn({kVocab, kHidden}, at::kFloat) * 0.3).to(dtype);
      Weight head = weight_of(matrix);
      head.packed = make_packed(matrix);
      pack(matrix, *head.packed);
      const at::Tensor h = leaf(hidden), plain_h = leaf(hidden.to(at::kDouble)),
                       plain_w = leaf(matrix.to(at::kDouble));
      const LogProbs ours = token_log_probs(h, head, rows, tokens, temperature, entropy_gradient, 100);
      const at::Tensor all =
          at::log_softmax(at::linear(plain_h, plain_w).index_select(0, index(wide_rows)) / temperature, 1);
      const at::Tensor plain = all.gather(1, index(wide_tokens).unsqueeze(1)).squeeze(1);
      EXPECT_LT(largest_difference(ours.log_probs_N, plain), 1e-4);
      if (entropy_gradient) {
        torch::autograd::backward({ours.log_probs_N, ours.entropy_N}, {grad, entropy_grad});
        torch::autograd::backward({plain, -(all.exp() * all).sum(1)}, {grad, entropy_grad});
      } else {
        torch::autograd::backward({ours.log_probs_N}, {grad});
        torch::autograd::backward({plain}, {grad});
      }
      // bf16: gradients of logits are rounded to 8 bits before the products.
      const double tolerance = dtype == at::kFloat ? 1e-5 : 1e-2;
      EXPECT_LT(largest_difference(h.grad(), plain_h.grad()) / plain_h.grad().abs().max().item<double>(),
                tolerance);
      EXPECT_LT(largest_difference(head.gradient, plain_w.grad()) / plain_w.grad().abs().max().item<double>(),
                tolerance);
    }
}

}  // namespace
}  // namespace trireme::models
