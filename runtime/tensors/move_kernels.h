// Elements that go from one place to another in a GPU's memory, as numbers that a kernel reads, and that
// kernel: for the GPU toolkit of this build; tests have one for the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/comm/buffer_view.h"
#include "runtime/tensors/box.h"

namespace trireme::tensors {

/// One side of a move: row r begins at element `offset` + the sum over d of (r's index in dim d) * strides[d]
/// of the memory `base`; the last dim runs fastest.
struct MoveSide {
  int64_t offset = 0;
  int64_t strides[kMaxDims] = {};
  uint32_t shape[kMaxDims] = {1, 1, 1, 1};
  uint32_t base = 0;
  bool operator==(const MoveSide&) const = default;
};

/// Rows of `length` elements that lie end to end on either side.
struct Move {
  MoveSide from, to;
  uint32_t rows = 0, length = 0;
  uint32_t stretches = 0;  // of kStretch elements and less, in a row; a team of threads takes one at a time
  bool operator==(const Move&) const = default;
};
inline constexpr uint32_t kStretch = 1024;

/// Stretches [first, first + kStretchesPerChunk) of a move, for one block of threads.
struct MoveChunk {
  uint32_t move = 0, first = 0;
  bool operator==(const MoveChunk&) const = default;
};
inline constexpr uint32_t kStretchesPerChunk = 32;

/// Many moves in the GPU's memory, and where their bases lie.
struct DeviceMoves {
  const Move* moves = nullptr;
  const MoveChunk* chunks = nullptr;
  int64_t num_chunks = 0;  // at least 1
  const std::byte* const* from = nullptr;
  std::byte* const* to = nullptr;
};

/// f32 and bf16 go into each other, types of 2 and 4 bytes to themselves.
constexpr bool has_move_kernel(comm::DType from, comm::DType to) {
  const size_t width = comm::size_of(from);
  if (from == to) return width == 2 || width == 4;
  return (from == comm::DType::f32 && to == comm::DType::bf16) ||
         (from == comm::DType::bf16 && to == comm::DType::f32);
}

struct MoveKernels {
  /// Enqueues them on a stream of the GPU's, between types that have a kernel. Returns what was wrong, or
  /// null.
  const char* (*run)(const DeviceMoves& moves, comm::DType from, comm::DType to, void* stream);
};

/// Null in a build without a GPU.
const MoveKernels* move_kernels();

}  // namespace trireme::tensors
