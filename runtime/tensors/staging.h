// Between a rank's tensors and the dense buffers that travel: gathering, scattering and, where the two sides
// have different types, converting. bf16 and f32 are converted into each other, f32 to bf16 rounded to
// nearest even; any other type only goes to itself.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/tensors/reshard_plan.h"

namespace trireme::tensors {

/// A role's memory on one rank: where each block begins, and of what type its elements are.
struct BlockMemory {
  std::span<std::byte* const> blocks;
  comm::DType dtype = comm::DType::bf16;
};

/// What one rank's part of a reshard does beside sending, where its memory lies. All throw internal if the
/// types cannot be converted. Nothing may overlap. On a GPU work is enqueued, in the order of the calls.
class Staging {
 public:
  virtual ~Staging() = default;
  /// Kept until this ends.
  virtual std::byte* allocate(int64_t bytes) = 0;
  /// Of plan.rounds[round].
  virtual void pack(size_t round, const BlockMemory& from, std::byte* buffer) = 0;
  virtual void unpack(size_t round, const std::byte* buffer, const BlockMemory& to) = 0;
  /// plan.copies
  virtual void copy(const BlockMemory& from, const BlockMemory& to) = 0;
};

/// Over host memory. `plan` outlives it.
std::unique_ptr<Staging> host_staging(const RankPlan& plan, comm::DType wire);

// The same over host memory, for any lists.

void pack(std::span<const Copy> copies, const BlockMemory& from, std::byte* buffer, comm::DType wire);
void unpack(std::span<const Copy> copies, const std::byte* buffer, comm::DType wire, const BlockMemory& to);
void copy(std::span<const LocalCopy> copies, const BlockMemory& from, const BlockMemory& to);

/// Where a reshard's elements end up if that is not a role's memory: a file.
class ReshardTarget {
 public:
  virtual ~ReshardTarget() = default;
  virtual void unpack(std::span<const Copy> copies, const std::byte* buffer, comm::DType wire) = 0;
  virtual void copy(std::span<const LocalCopy> copies, const BlockMemory& from) = 0;
};

/// `count` elements, dense.
void convert(const std::byte* from, comm::DType from_dtype, std::byte* to, comm::DType to_dtype,
             int64_t count);

}  // namespace trireme::tensors
