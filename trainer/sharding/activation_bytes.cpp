#include "trainer/sharding/activation_bytes.h"

#include <algorithm>

#include "trainer/models/context_parallel.h"

namespace trireme::sharding {
namespace {

constexpr int64_t kFloat = 4;

int64_t share(int64_t rows, int64_t ranks) {
  return (rows + ranks - 1) / ranks;
}

}  // namespace

int64_t activation_bytes(const models::DecoderShape& shape, const PassShape& pass) {
  const int64_t e = pass.element, hidden = shape.hidden_size, mlp = shape.intermediate_size / pass.tp;
  const models::AttentionDims dims{shape.num_attention_heads / pass.tp,
                                   std::max<int64_t>(1, shape.num_key_value_heads / pass.tp), shape.head_dim};
  // A rank's rows, and those of them that it norms.
  const int64_t rows = share(pass.rows, pass.cp), normed = share(rows, pass.tp);
  const int64_t q_width = dims.heads * dims.head_dim, qkv_width = dims.qkv_width();

  // What attention keeps: rotated rows, its result with log sum exps; by heads, of all rows.
  const auto heads = pass.cp > 1 && !pass.ring ? models::head_share(dims, pass.cp) : std::nullopt;
  const models::AttentionDims own = heads.value_or(dims);
  const int64_t attended = heads ? pass.rows : rows, own_q = own.heads * own.head_dim,
                own_kv = own.kv_heads * own.head_dim;
  int64_t attention = attended * (e * own.qkv_width() + e * own_q + kFloat * own.heads);
  if (heads) attention += rows * e * q_width;  // the result, back in rows
  if (shape.qk_norm) attention += rows * (e * qkv_width + kFloat * (dims.heads + dims.kv_heads));

  const int64_t norms = 2 * normed * (e * hidden + kFloat);  // inputs, inverse norms
  const int64_t products = 2 * rows * e * hidden;            // what qkv and gate_up multiply
  const int64_t gate_up = 2 * rows * e * mlp, inner = rows * e * mlp;
  const int64_t layer = norms + products + attention + gate_up + inner;
  const int64_t residual = normed * e * hidden;
  const int64_t layers = shape.num_hidden_layers;

  // Row numbers, pairs and what is found of them, a few words each; more of them where they are gathered.
  const int64_t judged = share(pass.judged, pass.cp);
  const int64_t words = 8 * pass.rows + 64 * judged + (pass.cp > 1 ? 128 : 16) * pass.judged;
  const int64_t end = residual + normed * kFloat + rows * e * hidden;  // the last norm's input, the head's

  const int64_t kept = pass.recompute ? layers * residual : layers * layer;
  // Moments in the order of time, each beside what is kept: the head's gradient; then of the last layer,
  // where all the others' are there still, the MLP's, and attention's in fp32.
  const int64_t panel = std::min<int64_t>(judged, 1024);
  const int64_t words_at_once = std::min<int64_t>(2048, share(shape.vocab_size, pass.tp));
  const int64_t logits =
      panel * (e * hidden + 2 * kFloat * hidden + (kFloat + (e == 2 ? 2 : 0)) * words_at_once);
  const int64_t chunk = std::min(judged, models::log_prob_chunk_rows(shape.vocab_size)) *
                        (e * hidden + kFloat * share(shape.vocab_size, pass.tp));
  const int64_t head = kept + end + std::max(chunk, rows * e * hidden + logits);
  // The gradient that flows back, and with recomputation the layer once more.
  const int64_t last = kept + residual + (pass.recompute ? layer : 0);
  const int64_t mlp_moment = last + gate_up;
  const int64_t attention_moment =
      last + attended * (kFloat * (own_q + 2 * own_kv) + e * (own_q + own.qkv_width())) - gate_up - inner -
      rows * e * hidden;
  return words + std::max({head, mlp_moment, attention_moment});
}

}  // namespace trireme::sharding
