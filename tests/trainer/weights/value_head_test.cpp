// Decoders with a value head: transformers' numbers (tools/make_goldens/value_head.py), rows that do not
// depend on their batch, ranks that share a model, and checkpoints of every kind that a critic may begin
// with.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "runtime/base/error.h"
#include "runtime/comm/local_communicator.h"
#include "trainer/models/decoder.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/tensors.h"
#include "trainer/weights/weight_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using models::DecoderShape, models::Head, models::ParameterSet;

std::string folder(const std::string& name) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(root ? root : ".") + "/tests/trainer/weights/" + name;
}

models::ForwardBatch text_of(const std::vector<int32_t>& tokens) {
  models::ForwardBatch batch;
  batch.tokens = tokens;
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.slots = batch.positions;
  const auto length = static_cast<int32_t>(tokens.size());
  batch.segments = {{0, length, 0, {{0, length}}}};
  return batch;
}

std::vector<int32_t> all_rows(size_t count) {
  std::vector<int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return at::linalg_vector_norm(a - b).item<double>() / (1e-12 + at::linalg_vector_norm(b).item<double>());
}

class ValueHead : public testing::TestWithParam<std::string> {
 protected:
  const std::string folder_ = folder("goldens-value-head/" + GetParam());
  const std::map<std::string, at::Tensor> expected_ =
      weights::read_tensors(folder_ + "/expected.safetensors");
  const std::vector<int32_t> tokens_{
      expected_.at("tokens").const_data_ptr<int32_t>(),
      expected_.at("tokens").const_data_ptr<int32_t>() + expected_.at("tokens").numel()};
  const DecoderShape shape_ = DecoderShape::from_folder(folder_, Head::value);

  // Weights of the folder; a head's bias that it lacks is 0.
  ParameterSet loaded() const {
    ParameterSet parameters(models::parameter_specs(shape_), at::kCPU);
    parameters.initialize(1, shape_);
    weights::load(folder_, shape_, parameters);
    parameters.enable_gradients();
    return parameters;
  }
  at::Tensor slopes() const { return at::cos(at::arange(static_cast<int64_t>(tokens_.size()))); }
};

TEST_P(ValueHead, ValuesAndGradientsAreThoseOfTransformers) {
  ParameterSet parameters = loaded();
  const models::Decoder decoder(shape_, parameters, at::kFloat);
  const models::ForwardBatch batch = text_of(tokens_);
  const at::Tensor values = decoder.row_values(decoder.forward_packed(batch), all_rows(tokens_.size()));
  EXPECT_LT(apart(values.detach(), expected_.at("values")), 2e-5);
  (values * slopes()).sum().backward();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto found = expected_.find("grad." + parameters.spec(i).name);
    if (found == expected_.end()) continue;  // a sequence classifier's bias
    const at::Tensor gradient =
        parameters.flat_gradient().narrow(0, parameters.offset(i), parameters.spec(i).numel());
    EXPECT_LT(apart(gradient, found->second.view({-1})), 1e-4) << parameters.spec(i).name;
  }
}

TEST_P(ValueHead, ARowHasTheSameBitsInAnyBatch) {
  const at::NoGradGuard no_gradients;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    ParameterSet parameters(models::parameter_specs(shape_), at::kCPU, dtype);
    parameters.initialize(1, shape_);
    weights::load(folder_, shape_, parameters);
    const models::Decoder decoder(shape_, parameters, dtype);
    const at::Tensor hidden = decoder.forward_packed(text_of(tokens_));
    const at::Tensor all = decoder.row_values(hidden, all_rows(tokens_.size()));
    for (int32_t row = 0; row < static_cast<int32_t>(tokens_.size()); row += 7) {
      EXPECT_TRUE(decoder.row_values(hidden, std::vector<int32_t>{row})[0].equal(all[row]));
      const std::vector<int32_t> before(tokens_.begin(), tokens_.begin() + row + 1);
      const at::Tensor alone =
          decoder.row_values(decoder.forward_packed(text_of(before)), std::vector<int32_t>{row, row});
      EXPECT_TRUE(alone[0].equal(all[row])) << row;
      EXPECT_TRUE(alone[1].equal(all[row])) << row;
    }
  }
}

TEST_P(ValueHead, IsSavedAsATokenClassifierWithOneLabel) {
  const auto saved = fs::temp_directory_path() / ("value_head_" + GetParam() + std::to_string(getpid()));
  const ParameterSet parameters = loaded();
  weights::save(saved.string(), shape_, parameters, at::kFloat);
  EXPECT_EQ(models::head_of(saved.string()), Head::value);
  const DecoderShape shape = DecoderShape::from_folder(saved.string(), Head::value);
  const auto config = shape.to_json("float32");
  EXPECT_TRUE(config["architectures"][0].get<std::string>().ends_with("ForTokenClassification"));
  EXPECT_EQ(config["id2label"].size(), 1U);
  ParameterSet again(models::parameter_specs(shape), at::kCPU);
  weights::load(saved.string(), shape, again);
  EXPECT_EQ(again.checksum(), parameters.checksum());
  EXPECT_THROW(DecoderShape::from_folder(saved.string()), Error);  // no language model
  fs::remove_all(saved);
}

INSTANTIATE_TEST_SUITE_P(, ValueHead,
                         testing::Values("qwen2-token", "qwen3-token", "llama-token", "qwen2-sequence"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name[name.find('-')] = '_';
                           return name;
                         });

class SharedValueHead : public testing::TestWithParam<int> {};

TEST_P(SharedValueHead, GivesTheWholeModelsValuesAndGradients) {
  const int tp = GetParam();
  DecoderShape shape;
  shape.vocab_size = 61;
  shape.hidden_size = 48;
  shape.intermediate_size = 72;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 12;
  shape.num_key_value_heads = 2;
  shape.head_dim = 4;
  shape.max_position_embeddings = 64;
  shape.initializer_range = 0.3;
  shape.head = Head::value;
  const auto drawn = [&](int t, int size) {
    ParameterSet parameters(models::parameter_specs(shape, size, t), at::kCPU);
    parameters.initialize(11, shape);
    parameters.enable_gradients();
    return parameters;
  };
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 50; ++i) tokens.push_back(i * 37 % 61);
  ParameterSet whole = drawn(0, 1);
  const models::Decoder decoder(shape, whole, at::kFloat);
  const models::ForwardBatch batch = text_of(tokens);
  const std::vector<int32_t> rows{0, 5, 5, 40, 49};
  const at::Tensor expected = decoder.row_values(decoder.forward_packed(batch), rows);
  expected.sum().backward();
  const at::Tensor total = at::zeros_like(whole.flat_gradient());
  std::mutex mutex;
  comm::LocalWorld::run(tp, [&](comm::Communicator& group) {
    ParameterSet slices = drawn(group.rank(), tp);
    const models::Decoder mine(shape, slices, at::kFloat, true, {&group});
    const at::Tensor values = mine.row_values(mine.forward_packed(batch), rows);
    values.sum().backward();
    const std::lock_guard lock(mutex);
    EXPECT_LT(apart(values.detach(), expected.detach()), 1e-5);
    for (size_t i = 0; i < slices.size(); ++i) {
      const auto* from = slices.flat_gradient().const_data_ptr<float>() + slices.offset(i);
      auto* to = total.mutable_data_ptr<float>() + whole.offset(i);
      models::for_each_stretch(slices.spec(i), 0, slices.spec(i).numel(),
                               [&](int64_t in_whole, int64_t in_slice, int64_t count) {
                                 for (int64_t k = 0; k < count; ++k) to[in_whole + k] += from[in_slice + k];
                               });
    }
  });
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto part = [&](const at::Tensor& x) {
      return x.narrow(0, whole.offset(i), whole.spec(i).numel());
    };
    EXPECT_LT(apart(part(total), part(whole.flat_gradient())), 1e-5) << whole.spec(i).name;
  }
}

INSTANTIATE_TEST_SUITE_P(, SharedValueHead, testing::Values(2, 4));

TEST(ValueHeadFiles, ALanguageModelLendsItsDecoderAndKeepsItsHead) {
  for (const char* name : {"goldens/tied-bf16", "goldens/sharded-fp32"}) {
    const DecoderShape shape = DecoderShape::from_folder(folder(name), Head::value),
                       language = DecoderShape::from_folder(folder(name));
    ParameterSet critic(models::parameter_specs(shape), at::kCPU),
        model(models::parameter_specs(language), at::kCPU);
    critic.initialize(3, shape);
    const at::Tensor drawn = critic.parameter("score.weight").clone();
    weights::load(folder(name), shape, critic);
    weights::load(folder(name), language, model);
    EXPECT_FALSE(weights::WeightFiles(folder(name), shape).has("score.weight"));
    EXPECT_FALSE(critic.contains("lm_head.weight"));
    EXPECT_TRUE(critic.parameter("score.weight").equal(drawn));
    EXPECT_EQ(critic.parameter("score.bias").item<float>(), 0.0F);
    EXPECT_GT(drawn.abs().max().item<float>(), 0.0F);
    EXPECT_TRUE(critic.parameter("model.norm.weight").equal(model.parameter("model.norm.weight")));
  }
}

TEST(ValueHeadFiles, TrlsNameOfTheHeadIsKnown) {
  const auto path = fs::temp_directory_path() / ("v_head_" + std::to_string(getpid()) + ".safetensors");
  const std::string source = folder("goldens-value-head/qwen2-token");
  const DecoderShape shape = DecoderShape::from_folder(source, Head::value);
  std::vector<std::pair<std::string, at::Tensor>> renamed;
  for (const auto& [name, values] : weights::read_tensors(source + "/model.safetensors"))
    renamed.emplace_back(name.starts_with("score.") ? "v_head.summary." + name.substr(6) : name, values);
  weights::write_tensors(path.string(), renamed);
  ParameterSet theirs(models::parameter_specs(shape), at::kCPU),
      ours(models::parameter_specs(shape), at::kCPU);
  weights::load(path.string(), shape, theirs);
  weights::load(source, shape, ours);
  EXPECT_EQ(theirs.checksum(), ours.checksum());
  fs::remove(path);
}

TEST(ValueHeadFiles, OfMoreThanOneLabelIsRefused) {
  const auto path = fs::temp_directory_path() / ("labels_" + std::to_string(getpid()) + ".safetensors");
  const std::string source = folder("goldens-value-head/qwen2-token");
  const DecoderShape shape = DecoderShape::from_folder(source, Head::value);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& [name, values] : weights::read_tensors(source + "/model.safetensors"))
    tensors.emplace_back(name,
                         name == "score.weight" ? at::zeros({2, shape.hidden_size}, at::kFloat) : values);
  weights::write_tensors(path.string(), tensors);
  try {
    const weights::WeightFiles files(path.string(), shape);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("score.weight has shape [2, 14]"), std::string::npos)
        << error.what();
  }
  fs::remove(path);
}

}  // namespace
}  // namespace trireme
