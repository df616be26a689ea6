#include "trainer/costs/memory.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "runtime/placement/layer_shares.h"

namespace trireme::costs {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The layers of a pipeline's stages, as the trainer shares them out.
const std::vector<placement::LayerRange>& stages_of(const ModelShape& shape, int64_t pp) {
  const placement::LayerCosts costs{
      static_cast<double>(shape.hidden_size * (2 * (shape.num_attention_heads + shape.num_key_value_heads) *
                                                   shape.head_dim +
                                               3 * shape.intermediate_size)),
      static_cast<double>(shape.hidden_size),
      static_cast<double>(shape.hidden_size * (shape.value_head ? 1 : shape.vocab_size))};
  // Asked for again and again by a search for layouts.
  thread_local std::map<std::array<double, 5>, std::vector<placement::LayerRange>> known;
  auto& ranges = known[{static_cast<double>(shape.num_hidden_layers), static_cast<double>(pp), costs.layer,
                        costs.before, costs.behind}];
  if (ranges.empty())
    ranges = placement::share_layers(shape.num_hidden_layers, static_cast<int>(pp), costs);
  return ranges;
}

// What the rank of the fullest pipeline stage holds: layers, and the embedding or the head or both.
struct Stage {
  int64_t layers, embedding, last;
};
Stage fullest_stage(const ModelShape& shape, const Layout& layout, const SliceSizes& sizes) {
  if (layout.pp == 1) return {shape.num_hidden_layers, sizes.embedding, sizes.last};
  const auto& stages = stages_of(shape, layout.pp);
  // A tied head needs the embedding's matrix at both ends.
  const int64_t last = sizes.last + (shape.tie_word_embeddings && !shape.value_head ? sizes.embedding : 0);
  const Stage at_front{stages.front().count(), sizes.embedding, 0}, at_end{stages.back().count(), 0, last};
  const auto elements = [&](const Stage& stage) {
    return stage.layers * sizes.layer + stage.embedding + stage.last;
  };
  return elements(at_front) >= elements(at_end) ? at_front : at_end;
}

// Of one layer, for T rows of a cp rank of which R lie outside of the products.
struct Rows {
  int64_t inside, outside;
};
Rows rows_of(const Layout& layout, int64_t rows) {
  return {rows, ceil_div(rows, layout.tp)};
}

int64_t local_kv_heads(const ModelShape& shape, const Layout& layout) {
  return std::max<int64_t>(1, shape.num_key_value_heads / layout.tp);
}
int64_t qkv_width(const ModelShape& shape, const Layout& layout) {
  return shape.q_width() / layout.tp + 2 * local_kv_heads(shape, layout) * shape.head_dim;
}

// Whether cp ranks share out heads in attention (else keys come round a ring), as models::head_share() has
// it, and how wide queries, keys and values are then for each row of a cp rank: kv heads may be there
// repeatedly.
struct Attention {
  bool by_heads = false;
  int64_t width = 0;
};
Attention attention_of(const ModelShape& shape, const Layout& layout) {
  const int64_t heads = shape.num_attention_heads / layout.tp, kv_heads = local_kv_heads(shape, layout),
                group = heads / kv_heads, own = heads / layout.cp;
  if (layout.cp == 1 || heads % layout.cp != 0 || (own % group != 0 && group % own != 0))
    return {false, qkv_width(shape, layout)};
  return {true, layout.cp * (own + 2 * std::max<int64_t>(1, own / group)) * shape.head_dim};
}

// The blocks' inputs are counted by the caller.
int64_t kept_within_layer(const ModelShape& shape, const Layout& layout, const Target& target, Rows rows) {
  const int64_t e = target.element, heads = shape.num_attention_heads / layout.tp;
  const int64_t q = shape.q_width() / layout.tp, mlp = shape.intermediate_size / layout.tp,
                qkv = qkv_width(shape, layout);
  int64_t bytes = 2 * rows.inside * shape.hidden_size * e;  // rows after the two norms
  bytes += rows.outside * shape.hidden_size * e;            // the stream between the two halves
  const Attention attention = attention_of(shape, layout);
  // Rotated, attended (by heads and by rows), gate+up, inner.
  bytes += rows.inside * (attention.width + (attention.by_heads ? 2 : 1) * q + 3 * mlp) * e;
  if (target.on_cpu) bytes += rows.inside * heads * 4 + 8 * rows.outside;  // log-sums, inverse roots
  if (shape.qk_norm)
    bytes += rows.inside * (qkv * e + (target.on_cpu ? (heads + local_kv_heads(shape, layout)) * 4 : 0));
  return bytes;
}

// What a layer's backward pass holds at its widest, beside what was kept.
int64_t transient_of_layer(const ModelShape& shape, const Layout& layout, const Target& target, Rows rows,
                           int64_t longest) {
  const int64_t e = target.element, q = shape.q_width() / layout.tp,
                mlp = shape.intermediate_size / layout.tp, qkv = attention_of(shape, layout).width;
  const int64_t stream = rows.outside * shape.hidden_size * e;
  const int64_t gathered = layout.tp > 1 ? rows.inside * shape.hidden_size * e : 0;
  // Where the MLP's middle is turned back its input has a gradient of twice the width of its output's, whose
  // own has taken the place of what was kept for it; or before that, where rows of all tp ranks come
  // together.
  const int64_t in_mlp = stream + std::max(gathered + rows.inside * mlp * e, 2 * rows.inside * mlp * e);
  int64_t in_attention =
      stream + rows.inside * (q + qkv) * e - rows.inside * 3 * mlp * e - rows.inside * shape.hidden_size * e;
  if (target.on_cpu) {
    in_attention += rows.inside * qkv * 4;  // gradients of queries, keys and values in fp32
  } else if (!target.flash_backward) {
    // Plain tensor arithmetic: every row's weights on all that it sees, and those of one sequence thrice.
    const int64_t heads = shape.num_attention_heads / layout.tp;
    in_attention += 4 * heads * longest * (rows.inside + 3 * longest);
  }
  return std::max(in_mlp, in_attention);
}

constexpr int64_t kLogitsAtOnce = 4 << 20;
constexpr int64_t kNormBytes = 8 << 20;  // a million elements of a gradient in double precision

int64_t chunk_rows(int64_t vocab, int64_t rows) {
  return std::min(rows, std::max<int64_t>(64, kLogitsAtOnce / vocab));
}

// The most that the head needs: in chunks of rows, the gradient of all rows beside them.
int64_t head_bytes(const ModelShape& shape, const Layout& layout, const Target& target, int64_t rows,
                   bool backward) {
  const int64_t hidden = shape.hidden_size, e = target.element;
  if (shape.value_head) return backward ? rows * hidden * e : 0;
  const int64_t tokens = slice_sizes(shape, layout.tp).head / hidden;
  const int64_t forward = chunk_rows(shape.vocab_size, rows) * (tokens * 4 + hidden * e);
  if (!backward) return forward;
  if (target.on_cpu) {
    const int64_t at_once = std::min<int64_t>(rows, 1024), words = std::min<int64_t>(tokens, 2048);
    const int64_t block = at_once * (words * (4 + (e == 2 ? 2 : 0)) + hidden * (2 * 4 + e));
    return std::max(forward, rows * hidden * e + block);
  }
  return rows * hidden * e + chunk_rows(shape.vocab_size, rows) * (tokens * (4 * 4 + e) + hidden * 2 * e);
}

// Rows and matrices packed for the CPU's products; the memory is kept for the next.
int64_t panel_bytes(const ModelShape& shape, const Layout& layout, const Target& target, int64_t rows,
                    bool trains) {
  if (!target.on_cpu) return 0;
  const SliceSizes sizes = slice_sizes(shape, layout.tp);
  const int64_t e = target.element, depth = std::min<int64_t>(rows, 512);
  const int64_t widest = std::max(2 * shape.intermediate_size / layout.tp, shape.hidden_size);
  int64_t bytes = 0;
  if (trains) {
    // A matrix turned over for its input's gradient, and two operands of a weight's gradient.
    if (rows >= 256) bytes += sizes.largest_matrix * e;
    bytes +=
        depth * e *
        (std::min<int64_t>(6144, widest) + std::max(shape.hidden_size, shape.intermediate_size / layout.tp));
  }
  if (!trains || layout.zero() == 3) bytes += sizes.largest_matrix * e;  // packed as it is used
  return bytes;
}

// After the passes, one after the other: what comes of a gradient from other ranks, and a piece for the norm.
int64_t update_bytes(const ModelShape& shape, const Layout& layout, const SliceSizes& sizes) {
  const int64_t word = layout.exact ? 8 : 4, cuts = layout.zero() == 0 ? 1 : layout.shards();
  int64_t received = 0;
  if (layout.zero() == 1) received = std::max({sizes.embedding, sizes.layer, sizes.last});  // a block's part
  if (layout.pp > 1 && shape.tie_word_embeddings && !shape.value_head)
    received = std::max(received, sizes.embedding);  // which both ends hold
  return std::max(kNormBytes, word * ceil_div(received, cuts));
}

}  // namespace

std::string Layout::text() const {
  std::string text = fmt::format("dp {}", dp);
  for (const auto& [name, size] : {std::pair{"pp", pp}, {"cp", cp}, {"tp", tp}})
    if (size > 1) text += fmt::format(" x {} {}", name, size);
  if (zero() > 0) text += fmt::format(", ZeRO {}", zero());
  if (recompute) text += ", recompute";
  if (exact) text += ", exact sums";
  return text;
}

StateBytes state_bytes(const ModelShape& shape, const Layout& layout, const Target& target) {
  const SliceSizes sizes = slice_sizes(shape, layout.tp);
  const Stage stage = fullest_stage(shape, layout, sizes);
  const int64_t zero = layout.zero(), cuts = zero == 0 ? 1 : layout.shards();
  const int64_t all = stage.embedding + stage.layers * sizes.layer + stage.last;
  const int64_t part = ceil_div(stage.embedding, cuts) + stage.layers * ceil_div(sizes.layer, cuts) +
                       ceil_div(stage.last, cuts);
  StateBytes bytes;
  bytes.masters = 4 * part;
  bytes.moments = 8 * part;
  bytes.gradient = 4 * part + (zero == 1 ? 4 * all : 0);
  if (zero == 0)
    bytes.weights = target.fp32() ? 0 : target.element * all;
  else
    bytes.weights = target.element * (zero == 3 ? stage.embedding + stage.last : all);
  if (target.on_cpu) {
    const bool has_head = layout.pp == 1 || stage.last > 0;
    bytes.packed = target.element *
                   ((has_head ? sizes.head : 0) + (zero == 3 ? 0 : stage.layers * sizes.layer_matrices));
  }
  // Two words: some element of nearly every block is too large for one (sharding/exact_sum.h).
  if (layout.exact) bytes.exact = 16 * (zero >= 2 ? part : all);
  return bytes;
}

// Moments that are outside come in pieces: AdamW's three, of two moments each.
constexpr int64_t kMomentPieces = 3 * 2 * (int64_t{16} << 20);

Presence presence_of(const StateBytes& state, const Layout& layout, const Target& target, bool weights_stay) {
  const int64_t moments = layout.optimizer_offload ? 0 : state.moments,
                pieces = layout.optimizer_offload ? std::min(state.moments * 3, kMomentPieces) : 0;
  const bool passes_read_masters = layout.zero() == 3 || (layout.zero() == 0 && target.fp32());
  if (!layout.param_offload || (weights_stay && passes_read_masters)) {
    const int64_t all = state.total() - state.moments + moments;
    return {all, all, all, all, pieces};
  }
  const int64_t copies = weights_stay ? 0 : state.weights + state.packed,
                stay = moments + state.exact + (weights_stay ? state.weights + state.packed : 0),
                masters = passes_read_masters ? state.masters : 0;
  Presence there;
  there.between = stay;
  // Copies are made of the masters before anything else is there.
  there.reading = stay + copies + (weights_stay ? 0 : state.masters);
  there.passes = stay + copies + masters + state.gradient;
  there.update = stay + copies + state.masters + state.gradient;
  there.pieces = pieces;
  return there;
}

PassBytes training_pass_bytes(const ModelShape& shape, const Layout& layout, const Target& target,
                              int64_t rows, int64_t longest, int64_t micro_batches) {
  const Rows own = rows_of(layout, ceil_div(rows, layout.cp));
  const SliceSizes sizes = slice_sizes(shape, layout.tp);
  const int64_t e = target.element, layers = stages_of(shape, layout.pp).front().count();
  const int64_t input = own.outside * shape.hidden_size * e;
  const int64_t within = kept_within_layer(shape, layout, target, own);
  const int64_t in_flight = std::min(layout.pp, std::max<int64_t>(1, micro_batches));
  PassBytes bytes;
  bytes.kept = in_flight * layers * (input + (layout.recompute ? 0 : within));
  if (layout.recompute) {
    // Outside all inputs but those on their way.
    if (layout.activation_offload) bytes.kept = std::min<int64_t>(in_flight * layers, 3) * input;
    bytes.kept += within;  // of the layer that is computed again
  }
  // Rows' numbers, their tokens and what is found of them; more where cp ranks gather them.
  bytes.kept += rows * (layout.cp > 1 ? 136 : 24) + 64 * own.inside;
  const int64_t layer = transient_of_layer(shape, layout, target, own, longest);
  // Beside it the last norm's input, and what it reads; both are gone when the layers' turn comes.
  const int64_t head =
      head_bytes(shape, layout, target, own.inside, true) + input + own.inside * shape.hidden_size * e;
  int64_t of_layers = 0;  // while they go backward: gradients of two, a reduced part
  if (layout.zero() >= 2) {
    const int64_t block = sizes.layer, cut = ceil_div(block, layout.shards());
    of_layers = 2 * 4 * block + 4 * cut;
    bytes.gathered = 4 * (sizes.embedding + sizes.last);  // gradients of both ends
    if (layout.zero() == 3) bytes.gathered += 2 * e * block + (target.fp32() ? 0 : e * cut);
  }
  // With recomputation the layer's own activations are not there yet while the head is at work.
  bytes.transient = std::max(layer + of_layers, layout.recompute ? head - within : head);
  bytes.panels = panel_bytes(shape, layout, target, own.inside, true);
  bytes.update = update_bytes(shape, layout, sizes);
  return bytes;
}

PassBytes forward_pass_bytes(const ModelShape& shape, const Layout& layout, const Target& target,
                             int64_t rows) {
  const Rows own = rows_of(layout, ceil_div(rows, layout.cp));
  const int64_t e = target.element, mlp = shape.intermediate_size / layout.tp,
                q = shape.q_width() / layout.tp;
  PassBytes bytes;
  const int64_t stream = own.outside * shape.hidden_size * e;
  const int64_t in_layer = std::max(own.inside * (shape.hidden_size + 3 * mlp) * e,
                                    own.inside * (2 * qkv_width(shape, layout) + q) * e);
  bytes.transient = 2 * stream + std::max(in_layer, own.inside * shape.hidden_size * e +
                                                        head_bytes(shape, layout, target, own.inside, false));
  bytes.panels = panel_bytes(shape, layout, target, own.inside, false);
  return bytes;
}

int64_t weight_bytes(const ModelShape& shape, const Layout& layout, const Target& target, bool generates) {
  const SliceSizes sizes = slice_sizes(shape, layout.tp);
  const Stage stage = fullest_stage(shape, layout, sizes);
  int64_t elements = stage.embedding + stage.layers * sizes.layer + stage.last;
  if (target.on_cpu) elements += sizes.head + (generates ? stage.layers * sizes.layer_matrices : 0);
  return elements * target.element;
}

int64_t generation_step_bytes(const ModelShape& shape, int64_t tp, const Target& target, int64_t rows,
                              int64_t sequences) {
  Layout layout;
  layout.tp = tp;
  const int64_t widths = 5 * shape.hidden_size + 2 * qkv_width(shape, layout) + 2 * shape.q_width() / tp +
                         3 * shape.intermediate_size / tp;
  const int64_t most = target.on_cpu ? 16 << 20 : 128 << 20;
  const int64_t logits = std::min(sequences, std::max<int64_t>(1, most / shape.vocab_size));
  return rows * widths * target.element + logits * shape.vocab_size * (tp > 1 ? 12 : 4);
}

}  // namespace trireme::costs
