// A model's trainable state: fp32 masters laid end to end in one flat buffer, each under its Hugging
// Face name, with a gradient buffer of the same layout. One buffer makes the all-reduce, the norm,
// the optimizer, a copy and a checksum one call each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/models/decoder_shape.h"

namespace trireme::models {

struct ParameterSpec {
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // as in the checkpoint: [out, in]
  bool weight_decay = true;    // false for norms and biases
};

/// All parameters of a decoder, in the order of the forward pass.
std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape);

class ParameterSet {
 public:
  ParameterSet(std::vector<ParameterSpec> specs, at::Device device);

  size_t size() const { return specs_.size(); }
  const ParameterSpec& spec(size_t i) const { return specs_[i]; }
  /// A view into flat(), fp32; requires gradients after enable_gradients().
  const at::Tensor& parameter(size_t i) const { return views_[i]; }
  /// Throws internal if there is none of that name.
  const at::Tensor& parameter(const std::string& name) const;
  size_t index_of(const std::string& name) const;

  at::Tensor& flat() { return flat_; }
  const at::Tensor& flat() const { return flat_; }
  int64_t offset(size_t i) const { return offsets_[i]; }
  int64_t num_parameters() const { return num_parameters_; }

  /// Allocates gradients (fp32, zero) and lets autograd add into them.
  void enable_gradients();
  at::Tensor& flat_gradient() { return gradient_; }
  void zero_gradients();

  /// Random weights from a seed, the same for any number of ranks: normal(0, std) per matrix, ones
  /// for norms, zeros for biases; the projections that write to the residual stream are scaled by
  /// (2 layers)^-0.5.
  void initialize(uint64_t seed, const DecoderShape& shape);

  /// XXH3 of the masters' bytes: equal sets have equal sums.
  uint64_t checksum() const;

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<int64_t> offsets_;
  std::map<std::string, size_t> index_;
  std::vector<at::Tensor> views_;
  at::Tensor flat_, gradient_;
  int64_t num_parameters_ = 0;
};

}  // namespace trireme::models
