// What a forward and a backward pass take on one rank beside what it holds anyway (state_bytes.h): the rows
// that the graph keeps, and what is alive beside them at the worst moment. On the CPU, where gradients are
// computed as written here; a GPU's backward pass takes more (device_ops.h).
#pragma once

#include <cstdint>

#include "trainer/models/decoder_shape.h"

namespace trireme::sharding {

struct PassShape {
  int64_t rows = 0;    // of the whole pass, on all cp ranks together
  int64_t judged = 0;  // of these, those whose logits are computed
  int element = 2;     // bytes of the compute type
  int tp = 1, cp = 1;
  bool ring = false;       // even where heads divide
  bool recompute = false;  // Decoder::recompute_blocks()
};

/// Of the first rank, which has a row more than others where rows do not divide.
int64_t activation_bytes(const models::DecoderShape& shape, const PassShape& pass);

}  // namespace trireme::sharding
