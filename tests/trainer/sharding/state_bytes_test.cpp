#include "trainer/sharding/state_bytes.h"

#include <gtest/gtest.h>

#include <mutex>

#include "runtime/comm/local_communicator.h"
#include "trainer/optim/adamw.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::sharding {
namespace {

models::DecoderShape shape_of(bool tied) {
  models::DecoderShape shape;
  shape.vocab_size = 512;
  shape.hidden_size = 64;
  shape.intermediate_size = 128;
  shape.num_hidden_layers = 4;
  shape.num_attention_heads = 8;
  shape.num_key_value_heads = 4;
  shape.head_dim = 8;
  shape.max_position_embeddings = 64;
  shape.tie_word_embeddings = tied;
  return shape;
}

// Against what is there: every tensor of a rank between updates.
TEST(StateBytes, AreThoseOfTheTensorsThatExist) {
  for (const bool tied : {false, true})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
      for (const int dp : {1, 3, 4})
        for (const int stage : {0, 1, 2, 3})
          comm::LocalWorld::run(dp, [&](comm::Communicator& group) {
            const models::DecoderShape shape = shape_of(tied);
            TrainedParameters parameters(shape, at::kCPU, dtype, stage, false, {&group, {}});
            const models::Decoder decoder(shape, parameters.weights(), dtype,
                                          parameters.holds_whole_weights());
            optim::AdamW optimizer(parameters, {});
            const StateBytes said = state_bytes(shape, dtype == at::kFloat ? 4 : 2, dp, 1, stage, true);
            const auto bytes = [](const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); };
            EXPECT_EQ(said.masters, bytes(parameters.masters()));
            EXPECT_EQ(said.moments, bytes(optimizer.moment(optim::AdamW::first)) + bytes(optimizer.moment(optim::AdamW::second)));
            models::ParameterSet& set = parameters.weights();
            int64_t weights = 0, gradient = bytes(parameters.gradient());
            for (int b = 0; !set.is_flat() && b < set.num_blocks(); ++b) {
              if (set.memory(b).allocated()) weights += bytes(set.block(b));
              if (set.gradient_memory(b).allocated()) gradient += bytes(set.block_gradient(b));
            }
            if (set.is_flat() && dtype != at::kFloat) weights = 2 * shape.num_parameters();
            // Blocks have room for equal cuts.
            const int64_t padding = set.is_flat() ? 0 : int64_t{4} * dp * set.num_blocks();
            EXPECT_NEAR(static_cast<double>(said.weights), static_cast<double>(weights),
                        static_cast<double>(padding));
            EXPECT_NEAR(static_cast<double>(said.gradient), static_cast<double>(gradient),
                        static_cast<double>(padding));
          });
}

// Stages hold what they compute; the tied embedding counts on two.
TEST(StateBytes, OfAPipelinesStagesAreThoseOfTheirTensors) {
  for (const bool tied : {false, true})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      int64_t masters = 0;
      std::mutex mutex;
      comm::LocalWorld::run(3, [&](comm::Communicator& stages) {
        const models::DecoderShape shape = shape_of(tied);
        const TrainingRanks ranks{nullptr, {}, &stages};
        TrainedParameters parameters(shape, at::kCPU, dtype, 0, false, ranks);
        const StateBytes said =
            state_bytes(shape, dtype == at::kFloat ? 4 : 2, 1, 1, 0, true, ranks.pipeline());
        EXPECT_EQ(said.masters, static_cast<int64_t>(parameters.masters().nbytes()));
        EXPECT_EQ(said.gradient, static_cast<int64_t>(parameters.gradient().nbytes()));
        const std::lock_guard lock(mutex);
        masters += said.masters;
      });
      EXPECT_EQ(masters, 4 * (shape_of(tied).num_parameters() + (tied ? 512 * 64 : 0)));
    }
}

TEST(StateBytes, FallWithTheNumberOfRanksButForWhatIsHeldWhole) {
  const models::DecoderShape shape = shape_of(false);
  const StateBytes one = state_bytes(shape, 2, 1, 1, 3, true), many = state_bytes(shape, 2, 64, 1, 3, true);
  EXPECT_NEAR(static_cast<double>(many.masters + many.gradient + many.moments),
              static_cast<double>(one.masters + one.gradient + one.moments) / 64, 64 * 16 * 6);
  EXPECT_EQ(many.weights, 2 * (2 * 512 * 64 + 64));  // embedding, final norm and head
}

}  // namespace
}  // namespace trireme::sharding
