// What a rank's share of a model in training weighs: worked out from its layout, before anything is made.
#pragma once

#include <cstdint>

#include "trainer/models/decoder_shape.h"
#include "trainer/models/pipeline_stage.h"

namespace trireme::sharding {

/// Bytes of one rank between updates. Activations, and what one pass brings and takes away again, come on
/// top.
struct StateBytes {
  int64_t masters = 0, gradient = 0;  // fp32
  int64_t moments = 0;                // AdamW's two
  int64_t weights = 0;                // what the decoder reads, where that is not the masters
  int64_t packed = 0;                 // on the CPU: matrices held once more
  int64_t total() const { return masters + gradient + moments + weights + packed; }
};

/// Of the first of `tp` ranks of a pipeline's stage; `element` is the compute type's bytes (2 or 4).
/// `packed`: on the CPU.
StateBytes state_bytes(const models::DecoderShape& shape, int element, int dp, int tp, int zero_stage,
                       bool packed, const models::PipelineStage& stage = {});

}  // namespace trireme::sharding
