// Our decoders against transformers', on small checkpoints of every family. What a faster kernel must also
// pass. The numbers come from tools/make_goldens/decoder.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/autograd.h>

#include "trainer/models/decoder.h"
#include "trainer/rollout/engine.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/tensors.h"

namespace trireme {
namespace {

std::string goldens() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(root ? root : ".") + "/tests/trainer/weights/goldens-decoder";
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int32_t> list(const at::Tensor& x) {
  return {x.const_data_ptr<int32_t>(), x.const_data_ptr<int32_t>() + x.numel()};
}

class DecoderGolden : public testing::TestWithParam<std::string> {
 protected:
  // A figure to quote: on the screen and in the test's record.
  void report(const char* what, double value, double bound) {
    std::cout << GetParam() << ": " << what << " " << value << " (at most " << bound << ")\n";
    RecordProperty(what, std::to_string(value));
  }

  /// The text laid out for a packed forward: a row's slot is the row itself.
  models::ForwardBatch text() const {
    models::ForwardBatch batch;
    batch.tokens = tokens_;
    batch.positions.resize(tokens_.size());
    std::iota(batch.positions.begin(), batch.positions.end(), 0);
    batch.slots = batch.positions;
    const auto length = static_cast<int32_t>(tokens_.size());
    batch.segments = {{0, length, 0, {{0, length}}}};
    return batch;
  }

  /// The text in pages of 16 slots from the last page to the first, and in three forwards: 1 row, 96, the
  /// rest.
  at::Tensor paged_logits(const models::Decoder& decoder) const {
    const auto length = static_cast<int32_t>(tokens_.size());
    const int32_t pages = (length + 15) / 16;
    const auto slot_of = [&](int32_t position) { return (pages - 1 - position / 16) * 16 + position % 16; };
    models::KvSlots kv = decoder.make_kv_slots(pages * 16);
    std::vector<at::Tensor> parts;
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 97}, {97, length}}) {
      models::ForwardBatch batch;
      models::Segment segment{0, end - begin, begin, {}};
      for (int32_t page = 0; page * 16 < end; ++page)
        segment.spans.push_back({slot_of(page * 16), std::min(16, end - page * 16)});
      batch.segments = {segment};
      std::vector<int32_t> rows;
      for (int32_t position = begin; position < end; ++position) {
        batch.tokens.push_back(tokens_[static_cast<size_t>(position)]);
        batch.positions.push_back(position);
        batch.slots.push_back(slot_of(position));
        if (std::find(rows_.begin(), rows_.end(), position) != rows_.end()) rows.push_back(position - begin);
      }
      parts.push_back(decoder.logits(decoder.forward_paged(batch, kv), rows));
    }
    return at::cat(parts, 0);
  }

  const std::string folder_ = goldens() + "/" + GetParam();
  const std::map<std::string, at::Tensor> expected_ =
      weights::read_tensors(folder_ + "/expected.safetensors");
  const std::vector<int32_t> tokens_ = list(expected_.at("tokens")), rows_ = list(expected_.at("rows"));
  const models::DecoderShape shape_ = models::DecoderShape::from_folder(folder_);
};

TEST_P(DecoderGolden, Fp32LogitsAreThoseOfTransformers) {
  const at::NoGradGuard no_gradients;
  models::ParameterSet parameters(models::parameter_specs(shape_), at::kCPU);
  weights::load(folder_, shape_, parameters);
  const models::Decoder decoder(shape_, parameters, at::kFloat);
  const at::Tensor& expected = expected_.at("logits");
  const double largest = expected.abs().max().item<double>();
  const auto error = [&](const at::Tensor& logits) {
    return (logits - expected).abs().max().item<double>() / largest;
  };
  const double packed = error(decoder.logits(decoder.forward_packed(text()), rows_));
  const double paged = error(paged_logits(decoder));
  report("packed fp32 logits, error relative to the largest", packed, 2e-5);
  report("paged fp32 logits, error relative to the largest", paged, 2e-5);
  EXPECT_LE(packed, 2e-5);
  EXPECT_LE(paged, 2e-5);
}

TEST_P(DecoderGolden, Bf16IsNoFurtherFromFp32ThanTransformersIs) {
  const at::NoGradGuard no_gradients;
  models::ParameterSet parameters(models::parameter_specs(shape_), at::kCPU, at::kBFloat16);
  weights::load(folder_, shape_, parameters);
  const models::Decoder decoder(shape_, parameters, at::kBFloat16);
  const float* theirs = expected_.at("bf16_error").const_data_ptr<float>();
  for (const at::Tensor& logits :
       {decoder.logits(decoder.forward_packed(text()), rows_), paged_logits(decoder)}) {
    const at::Tensor error = (logits - expected_.at("logits")).abs();
    const double largest = error.max().item<double>() / theirs[0],
                 mean = error.mean().item<double>() / theirs[1];
    report("largest bf16 error, relative to transformers' own", largest, 1.5);
    report("mean bf16 error, relative to transformers' own", mean, 1.5);
    EXPECT_LE(largest, 1.5);
    EXPECT_LE(mean, 1.5);
  }
}

TEST_P(DecoderGolden, GreedyTokensAreThoseOfTransformers) {
  models::ParameterSet parameters(models::parameter_specs(shape_), at::kCPU);
  weights::load(folder_, shape_, parameters);
  const models::Decoder decoder(shape_, parameters, at::kFloat);
  const std::vector<int32_t> expected = list(expected_.at("greedy"));
  const float* gap = expected_.at("greedy_gap").const_data_ptr<float>();
  // Beyond the first near tie either token is right, and what follows is another text.
  const auto comparable =
      std::find_if(gap, gap + expected.size(), [](float lead) { return lead < 1e-4f; }) - gap;
  rollout::Engine engine(decoder, {}, {}, static_cast<int64_t>(tokens_.size()));
  rollout::Request request;
  request.prompt = {tokens_.begin(), tokens_.begin() + 70};
  request.greedy = true;
  request.max_new_tokens = static_cast<int64_t>(expected.size());
  const std::vector<int32_t> ours = engine.generate({request})[0].responses[0].tokens;
  ASSERT_EQ(ours.size(), expected.size());
  const auto differs = std::mismatch(ours.begin(), ours.end(), expected.begin()).first - ours.begin();
  std::cout << GetParam() << ": " << differs << " equal greedy tokens of " << expected.size() << ", "
            << comparable << " before the first near tie\n";
  EXPECT_GE(comparable, 64);  // the goldens are made so
  EXPECT_GE(differs, comparable);
}

TEST_P(DecoderGolden, GradientIsThatOfTransformers) {
  models::ParameterSet parameters(models::parameter_specs(shape_), at::kCPU);
  weights::load(folder_, shape_, parameters);
  parameters.enable_gradients();
  const models::Decoder decoder(shape_, parameters, at::kFloat);
  const models::ForwardBatch batch = text();
  const std::vector<int32_t> rows(batch.positions.begin(), batch.positions.end() - 1);
  const std::vector<int32_t> next(tokens_.begin() + 1, tokens_.end());
  const at::Tensor loss =
      -decoder.token_log_probs(decoder.forward_packed(batch), rows, next, 1.0).log_probs_N.mean();
  torch::autograd::backward({loss}, {});

  double worst = 0, difference = 0, total = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters.spec(i).name;
    const at::Tensor theirs = expected_.at("grad." + name).view({-1});
    const at::Tensor ours =
        parameters.flat_gradient().narrow(0, parameters.offset(i), parameters.spec(i).numel());
    const double distance = (ours - theirs).norm().item<double>(), norm = theirs.norm().item<double>();
    EXPECT_LE(distance, 1e-4 * norm) << name;
    worst = std::max(worst, distance / norm);
    difference += distance * distance;
    total += norm * norm;
  }
  report("gradient, relative error of the worst parameter", worst, 1e-4);
  report("gradient, relative error of the whole", std::sqrt(difference / total), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderGolden, testing::ValuesIn(golden_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace trireme
