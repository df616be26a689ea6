// A model's state: parameters laid end to end in one flat buffer, each under its Hugging Face name, with a
// gradient buffer of the same layout. One buffer makes the all-reduce, the norm, the optimizer, a copy and a
// checksum one call each. What is trained is fp32; a set that is only read may be bf16.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/models/decoder_shape.h"
#include "trainer/models/parameter_spec.h"

namespace trireme::models {

class ParameterSet {
 public:
  /// `dtype` is fp32, or bf16 for a set that will not be trained. Values are undefined until they are loaded,
  /// initialized or copied into flat().
  ParameterSet(std::vector<ParameterSpec> specs, at::Device device, at::ScalarType dtype = at::kFloat);

  size_t size() const { return specs_.size(); }
  const ParameterSpec& spec(size_t i) const { return specs_[i]; }
  /// A view into flat(), without a graph.
  const at::Tensor& parameter(size_t i) const { return views_[i]; }
  /// Throws internal if there is none of that name.
  const at::Tensor& parameter(const std::string& name) const { return views_[index_of(name)]; }
  size_t index_of(const std::string& name) const;
  bool contains(const std::string& name) const { return index_.contains(name); }

  at::Tensor& flat() { return flat_; }
  const at::Tensor& flat() const { return flat_; }
  int64_t offset(size_t i) const { return offsets_[i]; }
  int64_t num_parameters() const { return num_parameters_; }
  at::Device device() const { return flat_.device(); }
  at::ScalarType dtype() const { return flat_.scalar_type(); }

  /// Allocates the gradient (zero); the set must be fp32. Call before a Decoder that shall train is built.
  void enable_gradients();
  bool has_gradients() const { return gradient_.defined(); }
  /// Backward passes add into it.
  at::Tensor& flat_gradient() { return gradient_; }
  const at::Tensor& flat_gradient() const { return gradient_; }
  void zero_gradients();

  /// Random weights from a seed, the same for any number of ranks and threads: matrices normal(0,
  /// shape.initializer_range), or fan_in^-0.5 where that is 0; embeddings normal(0, embedding_std), where
  /// that is 0 the range, or 0.02; ones for norms, zeros for biases. The projections that write to the
  /// residual stream are scaled by (2 layers)^-0.5.
  void initialize(uint64_t seed, const DecoderShape& shape, double embedding_std = 0.0);

  /// XXH3 of the parameters' bytes: equal sets of one dtype have equal sums.
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
