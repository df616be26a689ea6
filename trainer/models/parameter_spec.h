// Which parameters a decoder has. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/models/decoder_shape.h"

namespace trireme::models {

struct ParameterSpec {
  enum class Kind { embedding, matrix, residual_output, norm, bias };
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // as in the checkpoint: [out, in]
  Kind kind = Kind::matrix;

  bool weight_decay() const { return kind != Kind::norm && kind != Kind::bias; }
  int64_t numel() const;
};

/// All parameters of a decoder, in the order of the forward pass; q, k and v (weights, then biases)
/// and gate and up stand side by side, so that each trio or pair is one matrix of the flat buffer.
std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape);

}  // namespace trireme::models
