#include "trainer/models/decoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

DecoderShape tiny_shape(bool tied = false) {
  DecoderShape shape;
  shape.vocab_size = 31;
  shape.hidden_size = 24;
  shape.intermediate_size = 40;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 6;
  shape.max_position_embeddings = 256;
  shape.tie_word_embeddings = tied;
  shape.initializer_range = 0.3;
  return shape;
}

// With everything that a family may add to the layers.
DecoderShape tiny_qwen3_shape() {
  DecoderShape shape = tiny_shape(true);
  shape.model_type = "qwen3";
  shape.qk_norm = shape.attention_output_bias = true;
  return shape;
}

std::vector<int32_t> history(int32_t length, int32_t salt) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back((i * i * 5 + i * 3 + salt * 11) % 31);
  return tokens;
}

ForwardBatch packed(const std::vector<std::vector<int32_t>>& histories) {
  ForwardBatch batch;
  for (const auto& tokens : histories) {
    const auto row = static_cast<int32_t>(batch.tokens.size()), length = static_cast<int32_t>(tokens.size());
    batch.segments.push_back({row, length, 0, {{row, length}}});
    for (int32_t i = 0; i < length; ++i) {
      batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.slots.push_back(row + i);
    }
  }
  return batch;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(Decoder, GradientMatchesFiniteDifferences) {
  for (const DecoderShape& shape : {tiny_shape(false), tiny_shape(true), tiny_qwen3_shape()}) {
    ParameterSet parameters(parameter_specs(shape), at::kCPU);
    parameters.initialize(3, shape);
    parameters.enable_gradients();
    Decoder decoder(shape, parameters, at::kFloat);
    const ForwardBatch batch = packed({history(9, 1), history(4, 2)});
    const std::vector<int32_t> rows{0, 1, 5, 8, 9, 12}, tokens{3, 4, 5, 6, 7, 30};
    const auto loss = [&] {
      decoder.refresh();
      return decoder.token_log_probs(decoder.forward_packed(batch), rows, tokens, 1.0).log_probs_N.sum();
    };
    parameters.zero_gradients();
    loss().backward();
    const at::Tensor gradient = parameters.flat_gradient().clone();
    const at::NoGradGuard no_gradients;
    // Along the gradient the loss must rise by |g|^2 per unit: every parameter takes part in one number.
    const at::Tensor start = parameters.flat().clone();
    const double step = 1e-3 / gradient.norm().item<double>();
    parameters.flat().copy_(start + gradient * step);
    const double up = loss().item<double>();
    parameters.flat().copy_(start - gradient * step);
    const double down = loss().item<double>();
    const double expected = gradient.pow(2).sum().item<double>();
    EXPECT_NEAR((up - down) / (2 * step) / expected, 1.0, 5e-3);
    // And tensor by tensor, along each one's own gradient.
    for (size_t i = 0; i < parameters.size(); ++i) {
      const int64_t offset = parameters.offset(i), count = parameters.spec(i).numel();
      const at::Tensor part = at::zeros_like(gradient);
      part.narrow(0, offset, count).copy_(gradient.narrow(0, offset, count));
      const double norm = part.norm().item<double>();
      if (norm < 0.05) continue;  // its change would drown in fp32's rounding of the loss
      const double length = 2e-2 / norm;
      parameters.flat().copy_(start + part * length);
      const double plus = loss().item<double>();
      parameters.flat().copy_(start - part * length);
      const double minus = loss().item<double>();
      EXPECT_NEAR((plus - minus) / (2 * length) / (norm * norm), 1.0, 4e-2) << parameters.spec(i).name;
    }
  }
}

TEST(Decoder, SharedPromptGivesTheSameLossAndGradientAsCopies) {
  const DecoderShape shape = tiny_shape();
  ParameterSet parameters(parameter_specs(shape), at::kCPU);
  parameters.initialize(4, shape);
  parameters.enable_gradients();
  Decoder decoder(shape, parameters, at::kFloat);
  const auto prompt = history(70, 1), first = history(5, 2), second = history(80, 3);

  ForwardBatch shared = packed({prompt});
  for (const auto& response : {first, second}) {
    const auto row = static_cast<int32_t>(shared.tokens.size()),
               length = static_cast<int32_t>(response.size());
    shared.segments.push_back({row, length, 70, {{0, 70}, {row, length}}});
    for (int32_t i = 0; i < length; ++i) {
      shared.tokens.push_back(response[static_cast<size_t>(i)]);
      shared.positions.push_back(70 + i);
      shared.slots.push_back(row + i);
    }
  }
  auto one = prompt, two = prompt;
  one.insert(one.end(), first.begin(), first.end());
  two.insert(two.end(), second.begin(), second.end());
  const ForwardBatch copies = packed({one, two});

  const auto run = [&](const ForwardBatch& batch, std::vector<int32_t> rows) {
    parameters.zero_gradients();
    const std::vector<int32_t> tokens{1, 2, 3, 4};
    const at::Tensor loss =
        decoder.token_log_probs(decoder.forward_packed(batch), rows, tokens, 1.0).log_probs_N;
    loss.sum().backward();
    return std::make_pair(loss.detach(), parameters.flat_gradient().clone());
  };
  // The prompt's last row predicts the first token of both responses.
  const auto [shared_loss, shared_gradient] = run(shared, {69, 72, 69, 150});
  const auto [copied_loss, copied_gradient] = run(copies, {69, 72, 75 + 69, 75 + 145});
  EXPECT_LT(largest_difference(shared_loss, copied_loss), 2e-5);
  EXPECT_LT(largest_difference(shared_gradient, copied_gradient) / copied_gradient.abs().max().item<double>(),
            1e-4);
}

TEST(Decoder, PagedDecodingGivesThePackedForwardsRows) {
  for (const auto& [shape, dtype] : {std::pair{tiny_shape(), at::kFloat},
                                     {tiny_shape(), at::kBFloat16},
                                     {tiny_qwen3_shape(), at::kFloat},
                                     {tiny_qwen3_shape(), at::kBFloat16}}) {
    ParameterSet parameters(parameter_specs(shape), at::kCPU);
    parameters.initialize(5, shape);
    const Decoder decoder(shape, parameters, dtype);
    const at::NoGradGuard no_gradients;
    const auto tokens = history(100, 1);
    const at::Tensor whole = decoder.forward_packed(packed({tokens})).to(at::kFloat);
    // A prompt in two chunks, then token by token, on pages that lie backwards.
    KvSlots kv = decoder.make_kv_slots(112);
    const int32_t page = 16;
    const auto slot_of = [&](int32_t position) { return (6 - position / page) * page + position % page; };
    int32_t done = 0;
    for (const int32_t length : {30, 37, 1, 1, 1, 30}) {
      ForwardBatch batch;
      Segment segment{0, length, done, {}};
      for (int32_t first = 0; first < done + length; first += page)
        segment.spans.push_back({slot_of(first), std::min(page, done + length - first)});
      batch.segments.push_back(segment);
      for (int32_t i = done; i < done + length; ++i) {
        batch.tokens.push_back(tokens[static_cast<size_t>(i)]);
        batch.positions.push_back(i);
        batch.slots.push_back(slot_of(i));
      }
      const at::Tensor rows = decoder.forward_paged(batch, kv).to(at::kFloat);
      EXPECT_LT(largest_difference(rows, whole.narrow(0, done, length)), dtype == at::kFloat ? 1e-5 : 0.15);
      done += length;
    }
  }
}

TEST(Decoder, RefusesPositionsBeyondTheModel) {
  const DecoderShape shape = tiny_shape();
  ParameterSet parameters(parameter_specs(shape), at::kCPU);
  const Decoder decoder(shape, parameters, at::kFloat);
  EXPECT_THROW((void)decoder.forward_packed(packed({history(257, 1)})), Error);
}

}  // namespace
}  // namespace trireme::models
