// Which parameters a decoder has, and which slices of them a tensor-parallel rank holds. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/tensors/layout.h"
#include "trainer/models/decoder_shape.h"

namespace trireme::models {

struct ParameterSpec {
  enum class Kind { embedding, matrix, residual_output, norm, bias };
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // as in the checkpoint: [out, in]; of a slice, the slice's
  Kind kind = Kind::matrix;
  int index = 0;  // its place among all of the model's
  /// What is gathered and freed at once: 0 the embedding, then the layers, last the final norm and the head.
  int block = 0;
  /// Lies directly behind the parameter before it, in one matrix with it.
  bool joins_previous = false;

  // Of a slice: indices [first, first + shape[split_dim]) of a dim that has `whole` of them.
  int split_dim = tensors::Split::kWhole;
  int64_t first = 0, whole = 0;
  int holders = 1;  // tp ranks that hold this very slice; their gradients are parts of one sum

  bool weight_decay() const { return kind != Kind::norm && kind != Kind::bias; }
  bool is_value_head() const { return name.starts_with("score."); }
  bool is_in_layer() const { return name.starts_with("model.layers."); }
  int64_t numel() const;
  std::vector<int64_t> whole_shape() const;
};

/// All parameters of a decoder, in the order of the forward pass; q, k and v (weights, then biases)
/// and gate and up stand side by side, so that each trio or pair is one matrix of the flat buffer.
std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape);

/// How tp splits each of them: heads with their output columns, columns of the MLP, pieces of the
/// vocabulary; norms and the biases behind a sum over ranks stay whole. kv heads that are fewer than the
/// ranks are repeated.
std::vector<tensors::Split> tensor_splits(const DecoderShape& shape);
/// The same parameters as the runtime knows them.
std::vector<tensors::TensorSpec> tensor_specs(const DecoderShape& shape);

/// What tp rank t of `tp` holds. `tp` must fit (tensors::check).
std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape, int tp, int t);

/// Walks elements [begin, end) of a slice, counted row-major, in stretches that lie end to end in the whole
/// parameter: (the first one's index in the whole, in the slice, how many).
void for_each_stretch(const ParameterSpec& spec, int64_t begin, int64_t end,
                      const std::function<void(int64_t, int64_t, int64_t)>& stretch);

}  // namespace trireme::models
