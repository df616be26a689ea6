// Our decoder against transformers', on a checkpoint that transformers wrote.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "trainer/models/decoder.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/tensors.h"

namespace trireme {
namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(DecoderGolden, LogitsAreThoseOfTransformers) {
  const at::NoGradGuard no_gradients;
  const std::string folder =
      std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/tests/trainer/weights/goldens-decoder";
  const auto expected = weights::read_tensors(folder + "/expected.safetensors");
  const at::Tensor& tokens = expected.at("tokens");
  const auto length = static_cast<int32_t>(tokens.numel());

  const auto shape = models::DecoderShape::from_folder(folder);
  models::ParameterSet parameters(models::parameter_specs(shape), at::kCPU);
  weights::load(folder, shape, parameters);
  models::ForwardBatch batch;
  batch.tokens.assign(tokens.const_data_ptr<int32_t>(), tokens.const_data_ptr<int32_t>() + length);
  batch.positions.resize(batch.tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.slots = batch.positions;
  batch.segments = {{0, length, 0, {{0, length}}}};
  const std::vector<int32_t>& rows = batch.positions;

  // fp32 against fp32: sums are added in another order. The logits' own spread is about 3.
  const models::Decoder decoder(shape, parameters, at::kFloat);
  EXPECT_LT(largest_difference(decoder.logits(decoder.forward_packed(batch), rows), expected.at("logits")),
            2e-4);
  models::KvSlots kv = decoder.make_kv_slots(length);
  EXPECT_LT(largest_difference(decoder.logits(decoder.forward_paged(batch, kv), rows), expected.at("logits")),
            2e-4);

  // bf16 rounds every intermediate to 8 bits: close on the whole, as a mean over all logits.
  const models::Decoder half(shape, parameters, at::kBFloat16);
  const at::Tensor difference = half.logits(half.forward_packed(batch), rows) - expected.at("logits");
  EXPECT_LT(difference.abs().mean().item<double>(), 0.1);
}

}  // namespace
}  // namespace trireme
