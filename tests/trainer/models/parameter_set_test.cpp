#include "trainer/models/parameter_set.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>

#include "runtime/base/error.h"
#include "trainer/models/decoder.h"

namespace trireme::models {
namespace {

DecoderShape tiny_shape() {
  DecoderShape shape;
  shape.vocab_size = 31;
  shape.hidden_size = 24;
  shape.intermediate_size = 40;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 6;
  shape.max_position_embeddings = 256;
  shape.initializer_range = 0.3;
  return shape;
}

TEST(ParameterSet, InitializesTheSameFromOneSeedAndOtherwiseFromAnother) {
  const DecoderShape shape = tiny_shape();
  ParameterSet a(parameter_specs(shape), at::kCPU), b(parameter_specs(shape), at::kCPU),
      c(parameter_specs(shape), at::kCPU);
  a.initialize(1, shape);
  b.initialize(1, shape);
  c.initialize(2, shape);
  EXPECT_EQ(a.checksum(), b.checksum());
  EXPECT_NE(a.checksum(), c.checksum());
  EXPECT_EQ(a.num_parameters(), shape.num_parameters());
  const at::Tensor& q = a.parameter("model.layers.0.self_attn.q_proj.weight");
  EXPECT_NEAR(q.std().item<double>(), 0.3, 0.03);
  EXPECT_NEAR(q.mean().item<double>(), 0.0, 0.04);
  EXPECT_EQ(a.parameter("model.norm.weight").min().item<double>(), 1.0);
}

TEST(ParameterSet, HoldsBf16OfTheSameNumbersButDoesNotTrainThem) {
  const DecoderShape shape = tiny_shape();
  ParameterSet wide(parameter_specs(shape), at::kCPU),
      narrow(parameter_specs(shape), at::kCPU, at::kBFloat16);
  wide.initialize(1, shape);
  narrow.initialize(1, shape);
  EXPECT_EQ(narrow.dtype(), at::kBFloat16);
  EXPECT_TRUE(at::equal(narrow.flat(), wide.flat().to(at::kBFloat16)));
  const uint64_t sum = narrow.checksum();
  narrow.flat()[7] += 1.0;
  EXPECT_NE(narrow.checksum(), sum);
  EXPECT_THROW(narrow.enable_gradients(), Error);
}

TEST(ParameterSet, ADecoderOfItsDtypeComputesInItsBufferAndToTheSameBits) {
  const at::NoGradGuard no_gradients;
  const DecoderShape shape = tiny_shape();
  ParameterSet wide(parameter_specs(shape), at::kCPU),
      narrow(parameter_specs(shape), at::kCPU, at::kBFloat16);
  wide.initialize(1, shape);
  narrow.initialize(1, shape);
  ForwardBatch batch{{3, 1, 4, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}, {{0, 4, 0, {{0, 4}}}}};
  const Decoder copying(shape, wide, at::kBFloat16), sharing(shape, narrow, at::kBFloat16);
  EXPECT_TRUE(at::equal(copying.forward_packed(batch), sharing.forward_packed(batch)));
  narrow.flat().mul_(2.0);  // no refresh: it is the buffer that the decoder reads
  EXPECT_FALSE(at::equal(copying.forward_packed(batch), sharing.forward_packed(batch)));
}

}  // namespace
}  // namespace trireme::models
