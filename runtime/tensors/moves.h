// The moves that a rank's part of a reshard is made of.
#pragma once

#include <span>
#include <vector>

#include "runtime/tensors/move_kernels.h"
#include "runtime/tensors/reshard_plan.h"

namespace trireme::tensors {

struct MoveList {
  std::vector<Move> moves;
  std::vector<MoveChunk> chunks;
};

/// A base is a block's number, or 0 for the buffer. They throw internal if a piece of a tensor has 2^32 rows
/// or stretches.
MoveList moves_to_buffer(std::span<const Copy> copies, comm::DType wire);
MoveList moves_from_buffer(std::span<const Copy> copies, comm::DType wire);
MoveList moves_on_the_spot(std::span<const LocalCopy> copies);

}  // namespace trireme::tensors
