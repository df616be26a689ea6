// A model trained by many ranks, in every layout, against one rank. Ranks are threads.
#include "trainer/sharding/trained_parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "runtime/comm/local_communicator.h"
#include "runtime/placement/mesh.h"
#include "trainer/optim/adamw.h"

namespace trireme::sharding {
namespace {

models::DecoderShape small_shape() {
  models::DecoderShape shape;
  shape.vocab_size = 131;
  shape.hidden_size = 32;
  shape.intermediate_size = 48;
  shape.num_hidden_layers = 3;
  shape.num_attention_heads = 8;
  shape.num_key_value_heads = 2;
  shape.head_dim = 4;
  shape.max_position_embeddings = 64;
  shape.initializer_range = 0.3;
  return shape;
}

constexpr int kSequences = 7;  // shared out over replicas unevenly

models::ForwardBatch sequence(int index) {
  models::ForwardBatch batch;
  const int32_t length = 4 + 3 * (index % 4);
  batch.segments.push_back({0, length, 0, {{0, length}}});
  for (int32_t i = 0; i < length; ++i) {
    batch.tokens.push_back((index * 29 + i * i * 5 + i) % 131);
    batch.positions.push_back(i);
    batch.slots.push_back(i);
  }
  return batch;
}

struct Setting {
  int dp = 1, tp = 1, stage = 0;
  bool exact = false, recompute = false, adam = false;
  at::ScalarType dtype = at::kFloat;
};

// What a run comes to, put together from all ranks as the whole model's parameters.
struct Outcome {
  std::map<std::string, at::Tensor> gradients, masters;
  std::vector<double> norms;
};

void collect(const TrainedParameters& parameters, const at::Tensor& flat,
             std::map<std::string, at::Tensor>& into) {
  for (const Stretch& stretch : parameters.stretches()) {
    const models::ParameterSpec& spec = parameters.weights().spec(stretch.parameter);
    at::Tensor& whole = into[spec.name];
    if (!whole.defined()) whole = at::zeros(spec.whole_shape(), at::kFloat);
    auto* to = whole.mutable_data_ptr<float>();
    const auto* from = flat.const_data_ptr<float>();
    models::for_each_stretch(
        spec, stretch.begin, stretch.end, [&](int64_t in_whole, int64_t in_slice, int64_t count) {
          std::copy_n(from + stretch.at + in_slice - stretch.begin, count, to + in_whole);
        });
  }
}

void train(const Setting& setting, const TrainingRanks& ranks, int d, Outcome& outcome, std::mutex& mutex) {
  const models::DecoderShape shape = small_shape();
  TrainedParameters parameters(shape, at::kCPU, setting.dtype, setting.stage, setting.exact, ranks);
  models::Decoder decoder(shape, parameters.weights(), setting.dtype, parameters.holds_whole_weights(),
                          ranks.tp);
  decoder.recompute_blocks(setting.recompute);
  parameters.attach(decoder);
  parameters.initialize(5, 0);
  parameters.publish();
  optim::OptimConfig config;
  config.grad_clip = 0.5;
  optim::AdamW adam(parameters, config);
  for (int step = 0; step < 3; ++step) {
    parameters.begin_update(static_cast<size_t>((kSequences - d + setting.dp - 1) / setting.dp));
    for (int index = d; index < kSequences; index += setting.dp) {
      const models::ForwardBatch batch = sequence(index);
      const auto last = static_cast<int32_t>(batch.tokens.size()) - 1;
      const std::vector<int32_t> rows{0, last / 2, last}, tokens{index, 100 - index, 130};
      const at::Tensor hidden = decoder.forward_packed(batch);
      (decoder.token_log_probs(hidden, rows, tokens, 1.0).log_probs_N.sum() * (-0.1 - 0.02 * index))
          .backward();
      parameters.end_backward();
    }
    const double norm = parameters.sum_gradient();
    if (step == 0) {
      const std::lock_guard lock(mutex);
      collect(parameters, parameters.gradient(), outcome.gradients);
      outcome.norms.push_back(norm);
    }
    if (setting.adam)
      adam.step(1e-2, norm);
    else
      parameters.masters().sub_(parameters.gradient(), 0.05);
    parameters.publish();
  }
  const std::lock_guard lock(mutex);
  collect(parameters, parameters.masters(), outcome.masters);
}

Outcome run(const Setting& setting) {
  std::vector<int> all;
  for (int r = 0; r < setting.dp * setting.tp; ++r) all.push_back(r);
  const auto mesh = placement::Mesh::of(all, setting.tp);
  std::vector<std::unique_ptr<comm::LocalWorld>> replicas, parts;
  for (int d = 0; d < setting.dp; ++d) replicas.push_back(std::make_unique<comm::LocalWorld>(setting.tp));
  for (int t = 0; t < setting.tp; ++t) parts.push_back(std::make_unique<comm::LocalWorld>(setting.dp));
  Outcome outcome;
  std::mutex mutex;
  comm::LocalWorld::run(setting.dp * setting.tp, [&](comm::Communicator& world) {
    const auto place = *mesh.find(world.rank());
    const TrainingRanks ranks{&parts[place.t]->communicator(place.d),
                              {setting.tp > 1 ? &replicas[place.d]->communicator(place.t) : nullptr}};
    train(setting, ranks, place.d, outcome, mutex);
  });
  for (const double norm : outcome.norms) EXPECT_EQ(norm, outcome.norms[0]);
  return outcome;
}

void expect_near(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b,
                 double limit) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    const double size = at::linalg_vector_norm(b.at(name)).item<double>();
    EXPECT_LT(at::linalg_vector_norm(values - b.at(name)).item<double>(), limit * size + 1e-12) << name;
  }
}

void expect_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) EXPECT_TRUE(values.equal(b.at(name))) << name;
}

class EveryLayout : public testing::TestWithParam<std::tuple<int, int, int>> {};  // dp, tp, stage

TEST_P(EveryLayout, GivesOneRanksGradientsAndParameters) {
  const auto [dp, tp, stage] = GetParam();
  static const Outcome expected = run({});
  for (const bool exact : {false, true}) {
    const Setting setting{.dp = dp, .tp = tp, .stage = stage, .exact = exact, .recompute = stage % 2 == 1};
    const Outcome outcome = run(setting);
    expect_near(outcome.gradients, expected.gradients, 1e-5);
    expect_near(outcome.masters, expected.masters, 1e-5);
    EXPECT_NEAR(outcome.norms[0], expected.norms[0], 1e-5 * expected.norms[0]);
    const Outcome again = run(setting);
    expect_equal(outcome.gradients, again.gradients);
    expect_equal(outcome.masters, again.masters);
  }
}

// All that fit 2, 3, 4 and 8 ranks.
std::vector<std::tuple<int, int, int>> layouts() {
  std::vector<std::tuple<int, int, int>> result;
  for (const int ranks : {2, 3, 4, 8})
    for (const int tp : {1, 2, 4, 8})
      for (int stage = 0; ranks % tp == 0 && stage < (ranks == tp ? 1 : 4); ++stage)
        result.emplace_back(ranks / tp, tp, stage);
  return result;
}

INSTANTIATE_TEST_SUITE_P(, EveryLayout, testing::ValuesIn(layouts()), [](const auto& info) {
  return "Dp" + std::to_string(std::get<0>(info.param)) + "Tp" + std::to_string(std::get<1>(info.param)) +
         "Zero" + std::to_string(std::get<2>(info.param));
});

TEST(TrainedParameters, ExactSumsHaveTheSameBitsForAnyNumberOfReplicasAndAnyStage) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const int tp : {1, 2}) {
      const Outcome expected = run({.tp = tp, .exact = true, .adam = true, .dtype = dtype});
      for (const int dp : {2, 3, 4})
        for (const int stage : {0, 1, 2, 3}) {
          const Outcome outcome =
              run({.dp = dp, .tp = tp, .stage = stage, .exact = true, .adam = true, .dtype = dtype});
          SCOPED_TRACE(testing::Message()
                       << c10::toString(dtype) << " tp " << tp << " dp " << dp << " stage " << stage);
          expect_equal(outcome.gradients, expected.gradients);
          expect_equal(outcome.masters, expected.masters);
          EXPECT_EQ(outcome.norms[0], expected.norms[0]);
        }
    }
}

TEST(TrainedParameters, AFastSumHasTheSameBitsWhereverTheShardsAre) {
  for (const int dp : {2, 4}) {
    const Outcome expected = run({.dp = dp, .stage = 0, .adam = true});
    const Outcome outcome = run({.dp = dp, .stage = 1, .adam = true});
    expect_equal(outcome.gradients, expected.gradients);
  }
}

TEST(TrainedParameters, AGradientThatIsNoNumberIsSaidOnAllRanks) {
  for (const bool exact : {false, true})
    for (const int stage : {0, 1, 2, 3}) {
      comm::LocalWorld::run(3, [&](comm::Communicator& group) {
        const models::DecoderShape shape = small_shape();
        TrainedParameters parameters(shape, at::kCPU, at::kFloat, stage, exact, {&group, {}});
        models::Decoder decoder(shape, parameters.weights(), at::kFloat, parameters.holds_whole_weights());
        parameters.attach(decoder);
        parameters.initialize(5, 0);
        parameters.publish();
        parameters.begin_update(1);
        const models::ForwardBatch batch = sequence(1);
        const std::vector<int32_t> rows{1}, tokens{2};
        const at::Tensor loss =
            decoder.token_log_probs(decoder.forward_packed(batch), rows, tokens, 1.0).log_probs_N.sum();
        (loss * (group.rank() == 1 ? NAN : 1.0)).backward();
        parameters.end_backward();
        EXPECT_FALSE(std::isfinite(parameters.sum_gradient())) << stage;
      });
    }
}

TEST(TrainedParameters, ForwardPassesAloneNeedNoMatchInNumber) {
  comm::LocalWorld::run(3, [&](comm::Communicator& group) {
    const models::DecoderShape shape = small_shape();
    TrainedParameters whole(shape, at::kCPU, at::kFloat, 0, false, {});
    models::Decoder expected(shape, whole.weights(), at::kFloat);
    whole.attach(expected);
    whole.initialize(5, 0);
    whole.publish();
    TrainedParameters parameters(shape, at::kCPU, at::kFloat, 3, false, {&group, {}});
    models::Decoder decoder(shape, parameters.weights(), at::kFloat, false);
    parameters.attach(decoder);
    parameters.initialize(5, 0);
    parameters.publish();
    const at::NoGradGuard no_gradients;
    parameters.begin_forwards(static_cast<size_t>(group.rank()));
    for (int pass = 0; pass < group.rank(); ++pass)
      EXPECT_TRUE(decoder.forward_packed(sequence(pass)).equal(expected.forward_packed(sequence(pass))));
    parameters.end_forwards();
  });
}

TEST(CheckReplicas, NamesTheRankThatDiffers) {
  EXPECT_THROW(comm::LocalWorld::run(2,
                                     [](comm::Communicator& group) {
                                       const at::Tensor values = at::zeros({10}, at::kFloat);
                                       check_replicas(values, group);
                                       if (group.rank() == 1) values[7] = 1e-3;
                                       check_replicas(values, group);
                                     }),
               Error);
}

}  // namespace
}  // namespace trireme::sharding
