// What passes take on four MPI ranks, counted tensor by tensor, against what was predicted.
#include "trainer/sharding/activation_bytes.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>

#include "runtime/session/session.h"
#include "trainer/models/decoder.h"
#include "trainer/memory/tensor_memory.h"

namespace trireme::sharding {
namespace {

models::DecoderShape long_shape(int64_t heads) {
  models::DecoderShape shape;
  shape.vocab_size = 512;
  shape.hidden_size = 128;
  shape.intermediate_size = 352;
  shape.num_hidden_layers = 3;
  shape.num_attention_heads = heads;
  shape.num_key_value_heads = 2;
  shape.head_dim = 16;
  shape.max_position_embeddings = 1 << 14;
  return shape;
}

struct Case {
  int64_t heads;
  int tokens, cp, tp;
  bool recompute;
  at::ScalarType dtype;
};

// The most that one pass holds beside what was there before it.
int64_t measured(const Case& c, session::Session& session) {
  using placement::Role;
  const models::DecoderShape shape = long_shape(c.heads);
  const models::TensorParallel tp{c.tp > 1 ? &session.tp(Role::actor) : nullptr};
  models::ParameterSet parameters(models::parameter_specs(shape, tp.size(), tp.rank()), at::kCPU);
  parameters.initialize(1, shape);
  parameters.enable_gradients();
  models::Decoder decoder(shape, parameters, c.dtype, true, tp,
                          {c.cp > 1 ? &session.along(placement::Axis::cp, Role::actor) : nullptr});
  decoder.recompute_blocks(c.recompute);
  models::ForwardBatch batch;
  batch.segments.push_back({0, c.tokens, 0, {{0, c.tokens}}});
  std::vector<int32_t> rows, tokens;
  for (int32_t i = 0; i < c.tokens; ++i) {
    batch.tokens.push_back(i % 512);
    batch.positions.push_back(i);
    batch.slots.push_back(i);
    rows.push_back(i);
    tokens.push_back(i * 7 % 512);
  }
  models::deal_rows(batch, c.cp);
  const auto pass = [&] {
    decoder.token_log_probs(decoder.forward_packed(batch), rows, tokens, 1.0).log_probs_N.sum().backward();
  };
  pass();  // tables and buffers that stay
  memory::TensorMemory memory;
  const int64_t before = memory.held();
  pass();
  return memory.most() - before;
}

TEST(ActivationBytes, AreWithinFivePercentOfWhatTensorsTake) {
  const at::ScalarType f32 = at::kFloat, bf16 = at::kBFloat16;
  int64_t of_one = 0;
  for (const Case& c :
       {Case{8, 1024, 1, 1, false, bf16}, Case{8, 4096, 4, 1, false, bf16}, Case{6, 4096, 4, 1, false, bf16},
        Case{8, 4096, 4, 1, true, bf16}, Case{8, 2048, 4, 1, false, f32}, Case{8, 4096, 2, 2, false, bf16}}) {
    placement::RoleRanks roles;
    for (int rank = 0; rank < 4; ++rank) roles.actor.push_back(rank);
    roles.axes.actor = {.cp = c.cp, .tp = c.tp};
    session::Session session(plan::RankEnv::from_environment(), roles, comm::Device::cpu);
    const int64_t bytes = measured(c, session);
    const int64_t predicted = activation_bytes(
        long_shape(c.heads), {c.tokens, c.tokens, c.dtype == f32 ? 4 : 2, c.tp, c.cp, false, c.recompute});
    EXPECT_NEAR(static_cast<double>(bytes) / static_cast<double>(predicted), 1.0, 0.05)
        << c.heads << " heads, " << c.tokens << " tokens, cp " << c.cp << ", tp " << c.tp;
    // Four times the tokens on four ranks take what they took before, a sixth more at most.
    if (c.cp == 1) of_one = bytes;
    if (c.cp == 4 && !c.recompute && c.dtype == bf16) {
      EXPECT_LT(static_cast<double>(bytes), 1.17 * static_cast<double>(of_one));
    }
  }
}

}  // namespace
}  // namespace trireme::sharding
