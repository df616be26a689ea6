#include "runtime/tensors/moves.h"

#include <limits>
#include <numeric>

namespace trireme::tensors {
namespace {

// How many elements lie end to end, over and over.
int64_t run_length(const Strided& where) {
  const int last = where.num_dims - 1;
  return where.strides[last] == 1 ? where.shape[last] : 1;
}

uint32_t narrow(int64_t value) {
  TRIREME_CHECK(value >= 0 && value <= std::numeric_limits<uint32_t>::max(), "{} is too large for a move",
                value);
  return static_cast<uint32_t>(value);
}

// `where` in rows of `length`, which divides its runs.
MoveSide side_of(const Strided& where, int64_t length, int base) {
  MoveSide side;
  side.offset = where.offset;
  side.base = narrow(base);
  const int unused = kMaxDims - where.num_dims;
  for (int d = 0; d < where.num_dims; ++d) {
    side.shape[unused + d] = narrow(where.shape[d]);
    side.strides[unused + d] = where.strides[d];
  }
  if (run_length(where) > 1) {
    side.shape[kMaxDims - 1] = narrow(run_length(where) / length);
    side.strides[kMaxDims - 1] = length;
  }
  return side;
}

void append(MoveList& list, const Strided& from, int from_base, const Strided& to, int to_base) {
  const int64_t numel = from.numel();
  if (numel == 0) return;
  const int64_t length = std::gcd(run_length(from), run_length(to));
  Move move{side_of(from, length, from_base), side_of(to, length, to_base)};
  move.rows = narrow(numel / length);
  move.length = narrow(length);
  move.stretches = (move.length + kStretch - 1) / kStretch;
  const uint32_t all = narrow(int64_t{move.rows} * move.stretches);
  const uint32_t number = narrow(static_cast<int64_t>(list.moves.size()));
  list.moves.push_back(move);
  for (int64_t first = 0; first < all; first += kStretchesPerChunk)
    list.chunks.push_back({number, static_cast<uint32_t>(first)});
}

Strided dense(const Copy& copy, comm::DType wire) {
  Strided buffer;
  buffer.offset = copy.at / static_cast<int64_t>(comm::size_of(wire));
  buffer.shape[0] = copy.where.numel();
  buffer.strides[0] = 1;
  return buffer;
}

}  // namespace

MoveList moves_to_buffer(std::span<const Copy> copies, comm::DType wire) {
  MoveList list;
  for (const Copy& copy : copies) append(list, copy.where, copy.block, dense(copy, wire), 0);
  return list;
}

MoveList moves_from_buffer(std::span<const Copy> copies, comm::DType wire) {
  MoveList list;
  for (const Copy& copy : copies) append(list, dense(copy, wire), 0, copy.where, copy.block);
  return list;
}

MoveList moves_on_the_spot(std::span<const LocalCopy> copies) {
  MoveList list;
  for (const LocalCopy& copy : copies) append(list, copy.from, copy.block, copy.to, copy.block);
  return list;
}

}  // namespace trireme::tensors
