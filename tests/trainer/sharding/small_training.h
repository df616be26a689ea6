// A small model trained by many ranks, which are threads, in any layout, and what it comes to as a whole.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "runtime/comm/local_communicator.h"
#include "runtime/placement/mesh.h"
#include "trainer/memory/shelf.h"
#include "trainer/optim/adamw.h"
#include "trainer/sharding/model_memory.h"
#include "trainer/sharding/pipeline.h"

namespace trireme::sharding {

inline models::DecoderShape small_shape(bool tied = false, int64_t layers = 3) {
  models::DecoderShape shape;
  shape.vocab_size = 131;
  shape.hidden_size = 32;
  shape.intermediate_size = 48;
  shape.num_hidden_layers = layers;
  shape.num_attention_heads = 8;
  shape.num_key_value_heads = 2;
  shape.head_dim = 4;
  shape.max_position_embeddings = 256;
  shape.initializer_range = layers > 3 ? 0.15 : 0.3;  // or a deep one would make much of rounding
  shape.tie_word_embeddings = tied;
  return shape;
}

inline constexpr int kSequences = 7;  // shared out over replicas unevenly
inline constexpr int kSteps = 3;
inline constexpr double kLearningRate = 0.01;  // gradients have norms of up to 50: with more, roundings grow

inline models::ForwardBatch sequence(int index) {
  models::ForwardBatch batch;
  const int32_t length = index == 5 ? 150 : 4 + 3 * (index % 4);
  batch.segments.push_back({0, length, 0, {{0, length}}});
  for (int32_t i = 0; i < length; ++i) {
    batch.tokens.push_back((index * 29 + i * i * 5 + i) % 131);
    batch.positions.push_back(i);
    batch.slots.push_back(i);
  }
  return batch;
}

struct Setting {
  int dp = 1, pp = 1, cp = 1, tp = 1, stage = 0;
  bool ring = false;
  bool exact = false, recompute = false, adam = false, tied = false;
  bool offload = false;       // all that can be
  bool weights_stay = false;  // but for the weights
  at::ScalarType dtype = at::kFloat;
  int64_t layers = 3;
};

// What a run comes to, put together from all ranks as the whole model's parameters.
struct Outcome {
  std::map<std::string, at::Tensor> gradients, masters, copies;  // of a tied embedding, on the last stage
  std::vector<double> norms;
};

inline void collect(const TrainedParameters& parameters, const at::Tensor& flat,
                    std::map<std::string, at::Tensor>& into, std::map<std::string, at::Tensor>& copies,
                    const models::DecoderShape& shape) {
  for (const Stretch& stretch : parameters.stretches()) {
    const models::ParameterSpec& spec = parameters.weights().spec(stretch.parameter);
    const bool is_copy = spec.name == "model.embed_tokens.weight" &&
                         models::holds_tied_copy(shape, parameters.ranks().pipeline());
    at::Tensor& whole = (is_copy ? copies : into)[spec.name];
    if (!whole.defined()) whole = at::zeros(spec.whole_shape(), at::kFloat);
    auto* to = whole.mutable_data_ptr<float>();
    const auto* from = flat.const_data_ptr<float>();
    models::for_each_stretch(
        spec, stretch.begin, stretch.end, [&](int64_t in_whole, int64_t in_slice, int64_t count) {
          std::copy_n(from + stretch.at + in_slice - stretch.begin, count, to + in_whole);
        });
  }
}

inline void train(const Setting& setting, const TrainingRanks& ranks, const models::ContextParallel& context,
                  int d, Outcome& outcome, std::mutex& mutex) {
  const models::DecoderShape shape = small_shape(setting.tied, setting.layers);
  std::unique_ptr<memory::Outside> outside;
  if (setting.offload) outside = std::make_unique<memory::Outside>(at::kCPU, ::testing::TempDir());
  std::unique_ptr<memory::Shelf> shelf;
  if (setting.offload) shelf = std::make_unique<memory::Shelf>(*outside);
  TrainedParameters parameters(shape, at::kCPU, setting.dtype, setting.stage, setting.exact, ranks);
  models::Decoder decoder(shape, parameters.weights(), setting.dtype, parameters.holds_whole_weights(),
                          ranks.tp, context, ranks.pipeline());
  decoder.recompute_blocks(setting.recompute, shelf.get());
  parameters.attach(decoder);
  parameters.initialize(5, 0);
  parameters.publish();
  Pipeline passes(decoder, &parameters, ranks.pp);
  ModelMemory memory;
  if (setting.offload) memory = {*outside, parameters, setting.weights_stay};
  memory.rest();
  optim::OptimConfig config;
  config.grad_clip = 0.5;
  optim::AdamW adam(parameters, config, outside.get());
  std::vector<int> mine;
  std::vector<models::ForwardBatch> batches;
  std::vector<std::vector<int32_t>> places;  // of the rows
  for (int index = d; index < kSequences; index += setting.dp) {
    mine.push_back(index);
    batches.push_back(sequence(index));
    places.push_back(models::deal_rows(batches.back(), setting.cp));
  }
  for (int step = 0; step < kSteps; ++step) {
    const auto weights = memory.weights();
    passes.train(
        batches.size(), [&](size_t k) -> const models::ForwardBatch& { return batches[k]; },
        [&](size_t k, const at::Tensor& hidden) {
          const auto last = static_cast<int32_t>(batches[k].tokens.size()) - 1;
          std::vector<int32_t> rows{0, last / 2, last};
          const std::vector<int32_t> tokens{mine[k], 100 - mine[k], 130};
          for (int32_t& row : rows) row = places[k][static_cast<size_t>(row)];
          return decoder.token_log_probs(hidden, rows, tokens, 1.0).log_probs_N.sum() *
                 (-0.1 - 0.02 * mine[k]);
        });
    const double norm = parameters.sum_gradient();
    if (step == 0) {
      const std::lock_guard lock(mutex);
      collect(parameters, parameters.gradient(), outcome.gradients, outcome.copies, shape);
      outcome.norms.push_back(norm);
    }
    const auto masters = memory.masters(/*change=*/true);
    if (setting.adam)
      adam.step(1e-2, norm);
    else
      parameters.masters().sub_(parameters.gradient(), kLearningRate);
    parameters.publish();
  }
  const auto masters = memory.masters();
  const std::lock_guard lock(mutex);
  collect(parameters, parameters.masters(), outcome.masters, outcome.copies, shape);
}

// The groups of a mesh's ranks that `of` puts together.
class Groups {
 public:
  using Members = std::function<std::vector<int>(const placement::Mesh::Coordinates&)>;
  Groups(const placement::Mesh& mesh, Members of) : mesh_(mesh), of_(std::move(of)) {
    for (const int rank : mesh.ranks) {
      const std::vector<int> ranks = of_(*mesh.find(rank));
      worlds_.try_emplace(ranks.front(), static_cast<int>(ranks.size()));
    }
  }
  /// Null for a rank alone.
  comm::Communicator* join(int rank) {
    const std::vector<int> ranks = of_(*mesh_.find(rank));
    const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return ranks.size() == 1 ? nullptr : &worlds_.at(ranks.front()).communicator(static_cast<int>(place));
  }

 private:
  const placement::Mesh& mesh_;
  Members of_;
  std::map<int, comm::LocalWorld> worlds_;  // by the first rank
};

inline Outcome run(const Setting& setting) {
  std::vector<int> all(static_cast<size_t>(setting.dp * setting.pp * setting.cp * setting.tp));
  std::iota(all.begin(), all.end(), 0);
  const auto mesh = placement::Mesh::of(all, {.pp = setting.pp, .cp = setting.cp, .tp = setting.tp});
  const auto along = [&](placement::Axis axis) {
    return Groups(mesh, [&mesh, axis](const auto& place) { return mesh.along(axis, place); });
  };
  Groups copies(mesh, [&mesh](const auto& place) { return mesh.same_weights(place); });
  Groups stages = along(placement::Axis::pp), contexts = along(placement::Axis::cp),
         slices = along(placement::Axis::tp);
  Outcome outcome;
  std::mutex mutex;
  comm::LocalWorld::run(static_cast<int>(all.size()), [&](comm::Communicator& world) {
    const int rank = world.rank();
    const TrainingRanks ranks{copies.join(rank), {slices.join(rank)}, stages.join(rank)};
    train(setting, ranks, {contexts.join(rank), setting.ring}, mesh.find(rank)->d, outcome, mutex);
  });
  for (const double norm : outcome.norms) EXPECT_EQ(norm, outcome.norms[0]);
  for (const auto& [name, values] : outcome.copies)
    EXPECT_TRUE(values.equal(outcome.masters.at(name))) << name;
  return outcome;
}

/// Both within 1e-5 of one rank's. A bias's gradient is a sum over rows that cancel (that of k would vanish but
/// for the rotation), and a bias begins at 0: what is rounded there is measured by the size of what is summed,
/// which its weight's gradient shows: the same rows times inputs of about sqrt(hidden).
inline void expect_near(const Outcome& outcome, const Outcome& expected) {
  ASSERT_EQ(outcome.gradients.size(), expected.gradients.size());
  ASSERT_EQ(outcome.masters.size(), expected.masters.size());
  const auto norm = [](const at::Tensor& values) { return at::linalg_vector_norm(values).item<double>(); };
  for (const auto& [name, gradient] : expected.gradients) {
    const at::Tensor& master = expected.masters.at(name);
    double of_gradient = norm(gradient), of_master = norm(master);
    if (name.ends_with(".bias")) {
      const std::string weight = name.substr(0, name.size() - 4) + "weight";
      const double summed = norm(expected.gradients.at(weight)) / std::sqrt(small_shape(false, 1).hidden_size);
      of_gradient = std::max(of_gradient, summed);
      of_master = std::max(of_master, kSteps * kLearningRate * summed);
    }
    EXPECT_LT(norm(outcome.gradients.at(name) - gradient), 1e-5 * of_gradient + 1e-12) << name;
    EXPECT_LT(norm(outcome.masters.at(name) - master), 1e-5 * of_master + 1e-12) << name;
  }
}

inline void expect_equal(const std::map<std::string, at::Tensor>& a,
                         const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) EXPECT_TRUE(values.equal(b.at(name))) << name;
}

}  // namespace trireme::sharding
