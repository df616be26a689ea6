// A model's state: parameters under their Hugging Face names, each with its gradient.
//
// Either all of them lie end to end in one flat buffer, with a gradient buffer of the same layout: one buffer
// makes the all-reduce, the norm, the optimizer, a copy and a checksum one call each. Or they lie in blocks,
// each in memory of its own that may be given back while nobody reads it, so that ranks can share a model
// that none of them could hold (sharding). What is trained in a flat buffer is fp32; a set that is only read,
// or whose masters are kept elsewhere, may be bf16.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trainer/memory/block_memory.h"
#include "trainer/models/decoder_shape.h"
#include "trainer/models/parameter_spec.h"

namespace trireme::models {

class ParameterSet {
 public:
  /// One flat buffer. `dtype` is fp32, or bf16 for a set that will not be trained. Values are undefined until
  /// they are loaded, initialized or copied in.
  ParameterSet(std::vector<ParameterSpec> specs, at::Device device, at::ScalarType dtype = at::kFloat);

  struct Blocks {
    int64_t multiple = 1;  // each has a multiple of so many elements: room for equal cuts
  };
  /// In blocks, all allocated; `specs` name them.
  ParameterSet(std::vector<ParameterSpec> specs, at::Device device, at::ScalarType dtype, Blocks blocks);

  size_t size() const { return specs_.size(); }
  const ParameterSpec& spec(size_t i) const { return specs_[i]; }
  const std::vector<ParameterSpec>& specs() const { return specs_; }
  /// A view, without a graph.
  const at::Tensor& parameter(size_t i) const { return views_[i]; }
  /// Throws internal if there is none of that name.
  const at::Tensor& parameter(const std::string& name) const { return views_[index_of(name)]; }
  size_t index_of(const std::string& name) const;
  bool contains(const std::string& name) const { return index_.contains(name); }
  int64_t num_parameters() const { return num_parameters_; }
  at::Device device() const { return device_; }
  at::ScalarType dtype() const { return dtype_; }

  bool is_flat() const { return flat_.defined(); }
  /// Of a flat set.
  at::Tensor& flat();
  const at::Tensor& flat() const;
  /// Where a parameter begins in the flat buffer, counting no block's padding.
  int64_t offset(size_t i) const { return offsets_[i]; }

  int num_blocks() const { return static_cast<int>(block_begins_.size()) - 1; }
  /// Parameters of a block, padding not counted; and where the block begins in a flat buffer.
  int64_t block_numel(int block) const { return block_begins_[block + 1] - block_begins_[block]; }
  int64_t block_begin(int block) const { return block_begins_[block]; }
  /// A block's parameters end to end, with its padding; of a flat set a view into flat().
  at::Tensor block(int block) const;
  at::Tensor block_gradient(int block) const;
  /// Of a set in blocks, which has enabled gradients.
  memory::BlockMemory& memory(int block) { return blocks_[block]; }
  memory::BlockMemory& gradient_memory(int block) { return gradient_blocks_[block]; }

  /// Allocates the gradient (zero), fp32. A flat set must be fp32. Call before a Decoder that shall train is
  /// built.
  void enable_gradients();
  bool has_gradients() const { return has_gradients_; }
  /// Backward passes add into it. Of a flat set.
  at::Tensor& flat_gradient();
  const at::Tensor& flat_gradient() const;
  /// What of it is allocated.
  void zero_gradients();

  /// Random weights from a seed, the same for any number of ranks and threads, and for any slices: matrices
  /// normal(0, shape.initializer_range), or fan_in^-0.5 where that is 0; embeddings normal(0,
  /// embedding_std), where that is 0 the range, or 0.02; ones for norms, zeros for biases. The projections
  /// that write to the residual stream are scaled by (2 layers)^-0.5. Blocks must be allocated.
  void initialize(uint64_t seed, const DecoderShape& shape, double embedding_std = 0.0);

  /// XXH3 of the parameters' bytes: equal sets of one dtype have equal sums.
  uint64_t checksum() const;

 private:
  void index();

  std::vector<ParameterSpec> specs_;
  at::Device device_;
  at::ScalarType dtype_;
  std::vector<int64_t> offsets_, block_begins_;
  std::map<std::string, size_t> index_;
  std::vector<at::Tensor> views_;
  at::Tensor flat_, gradient_;
  std::vector<memory::BlockMemory> blocks_, gradient_blocks_;
  bool has_gradients_ = false;
  int64_t num_parameters_ = 0;
};

/// What initialize() gives elements [begin, end) of a parameter.
void draw_initial_values(const ParameterSpec& spec, uint64_t seed, const DecoderShape& shape,
                         double embedding_std, int64_t begin, int64_t end, float* values);

}  // namespace trireme::models
