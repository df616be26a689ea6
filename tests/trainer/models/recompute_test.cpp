// Gradient checkpointing: the same bits with less memory.
#include "trainer/models/recompute.h"

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/trainer/models/tensor_bytes.h"
#include "trainer/models/decoder.h"

namespace trireme::models {
namespace {

DecoderShape shape_of(int64_t layers, bool qwen3) {
  DecoderShape shape;
  shape.vocab_size = 67;
  shape.hidden_size = 48;
  shape.intermediate_size = 112;
  shape.num_hidden_layers = layers;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 12;
  shape.max_position_embeddings = 512;
  shape.initializer_range = 0.3;
  if (qwen3) {
    shape.model_type = "qwen3";
    shape.qk_norm = shape.attention_output_bias = shape.tie_word_embeddings = true;
  }
  return shape;
}

// A prompt with two responses, and a text of its own.
ForwardBatch batch_of(const DecoderShape& shape) {
  ForwardBatch batch;
  const auto add = [&](int32_t position, int32_t length, std::vector<SlotSpan> spans) {
    const auto row = static_cast<int32_t>(batch.tokens.size());
    spans.push_back({row, length});
    batch.segments.push_back({row, length, position, spans});
    for (int32_t i = 0; i < length; ++i) {
      batch.tokens.push_back((row * 5 + i * i) % static_cast<int32_t>(shape.vocab_size));
      batch.positions.push_back(position + i);
      batch.slots.push_back(row + i);
    }
  };
  add(0, 150, {});
  add(150, 70, {{0, 150}});
  add(150, 33, {{0, 150}});
  add(0, 91, {});
  return batch;
}

struct Outcome {
  at::Tensor loss, gradient;
  int64_t graph_bytes = 0, peak_bytes = 0;
};

Outcome train(const DecoderShape& shape, at::ScalarType dtype, bool recompute,
              memory::Shelf* shelf = nullptr) {
  ParameterSet parameters(parameter_specs(shape), at::kCPU);
  parameters.initialize(3, shape);
  parameters.enable_gradients();
  Decoder decoder(shape, parameters, dtype);
  decoder.recompute_blocks(recompute, shelf);
  const ForwardBatch batch = batch_of(shape);
  std::vector<int32_t> rows, tokens;
  for (int32_t row = 0; row < static_cast<int32_t>(batch.num_rows()); row += 3) {
    rows.push_back(row);
    tokens.push_back(row % 67);
  }
  Outcome outcome;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {  // gradients accumulate
    const TensorBytes bytes;
    const at::Tensor loss =
        decoder.token_log_probs(decoder.forward_packed(batch), rows, tokens, 0.9).log_probs_N.mean();
    outcome.graph_bytes = bytes.live();
    loss.backward();
    outcome.loss = loss.detach();
    outcome.peak_bytes = bytes.peak();
  }
  outcome.gradient = parameters.flat_gradient().clone();
  return outcome;
}

TEST(Recompute, GradientsHaveTheSameBits) {
  for (const bool qwen3 : {false, true})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Outcome kept = train(shape_of(3, qwen3), dtype, false),
                    again = train(shape_of(3, qwen3), dtype, true);
      EXPECT_GT(kept.gradient.abs().max().item<double>(), 0.0);
      EXPECT_TRUE(kept.loss.equal(again.loss));
      EXPECT_TRUE(kept.gradient.equal(again.gradient)) << "qwen3 " << qwen3 << " " << toString(dtype);
    }
}

TEST(Recompute, AGraphKeepsOneTensorALayer) {
  constexpr int64_t kLayers = 8;
  const DecoderShape shape = shape_of(kLayers, false);
  const Outcome kept = train(shape, at::kFloat, false), again = train(shape, at::kFloat, true);
  const auto rows = static_cast<int64_t>(batch_of(shape).num_rows());
  const int64_t input = rows * shape.hidden_size * 4;
  // The embedding, each block's output and the last norm; some numbers a row beside them.
  EXPECT_LT(again.graph_bytes, (kLayers + 3) * input);
  EXPECT_GT(kept.graph_bytes, 2 * again.graph_bytes);
  EXPECT_LT(again.peak_bytes, kept.peak_bytes / 2);
}

TEST(Recompute, WhatAShelfKeepsIsNotInMemoryAndHasTheSameBits) {
  constexpr int64_t kLayers = 8;
  memory::Outside outside(at::kCPU, testing::TempDir());
  memory::Shelf shelf(outside);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const DecoderShape shape = shape_of(kLayers, false);
    const Outcome there = train(shape, dtype, true), aside = train(shape, dtype, true, &shelf);
    EXPECT_TRUE(there.loss.equal(aside.loss));
    EXPECT_TRUE(there.gradient.equal(aside.gradient)) << toString(dtype);
    const auto rows = static_cast<int64_t>(batch_of(shape).num_rows());
    const int64_t input = rows * shape.hidden_size * (dtype == at::kFloat ? 4 : 2);
    // What is behind is still there: two copies, and the input of the last block.
    EXPECT_LE(aside.graph_bytes, there.graph_bytes - (kLayers - 3) * input);
    EXPECT_LT(aside.peak_bytes, there.peak_bytes);
    EXPECT_EQ(outside.most_bytes(), kLayers * rows * shape.hidden_size * 4) << "of fp32, and used again";
  }
}

TEST(Recompute, APartRunsAgainOnlyWhereAGradientIsAskedFor) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({5, 4}, at::kFloat).requires_grad_(true),
                   grad = at::randn({5, 4}, at::kFloat);
  int runs = 0;
  const auto cube = [&runs](const at::Tensor& value) {
    ++runs;
    return value * value * value;
  };
  const at::Tensor y = recomputed(cube, x);
  EXPECT_EQ(runs, 1);
  torch::autograd::backward({y}, {grad});
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(y.equal(x * x * x));
  EXPECT_LT((x.grad() - 3 * x * x * grad).abs().max().item<double>(), 1e-5);
}

TEST(Recompute, AnErrorInThePartReachesTheCallerOfBackward) {
  const at::Tensor x = at::randn({3}, at::kFloat).requires_grad_(true);
  int runs = 0;
  const at::Tensor y = recomputed(
      [&runs](const at::Tensor& value) {
        if (++runs == 2) throw std::runtime_error("no second time");
        return value * 2;
      },
      x);
  EXPECT_THROW(y.sum().backward(), std::runtime_error);
}

}  // namespace
}  // namespace trireme::models
