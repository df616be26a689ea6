// A decoder's layers shared out to the stages of a pipeline: stage 0 has the embedding too, the last one the
// final norm and the head. Where embedding and head are one matrix (tied), both of them hold it. Torch-free.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/placement/layer_shares.h"
#include "trainer/models/parameter_spec.h"

namespace trireme::models {

/// One stage of `count`.
struct PipelineStage {
  int index = 0, count = 1;
  bool is_first() const { return index == 0; }
  bool is_last() const { return index == count - 1; }
};

/// What a row costs, in products and sums of the forward pass. Attention depends on the rows and is left out.
placement::LayerCosts layer_costs(const DecoderShape& shape);

/// The layers of each stage of a decoder.
std::vector<placement::LayerRange> layers_of_stages(const DecoderShape& shape, int stages);
/// The blocks (ParameterSpec::block) of each stage, ascending, as tensors::Layout wants them.
std::vector<std::vector<int>> blocks_of_stages(const DecoderShape& shape, int stages);

/// Whether this stage holds a matrix that counts on the first stage: the tied embedding, as the head.
bool holds_tied_copy(const DecoderShape& shape, const PipelineStage& stage);

/// What tp rank t of `tp` holds on one stage; blocks are numbered 0, 1, ... anew.
std::vector<ParameterSpec> parameter_specs(const DecoderShape& shape, int tp, int t,
                                           const PipelineStage& stage);

}  // namespace trireme::models
