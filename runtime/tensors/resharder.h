// A reshard that is run again and again: planned once, then every call moves the tensors of a model from the
// ranks and layout that hold them to those that need them.
//
//   round k - 1   ... received |
//   round k           packed   | on the way ------------------>| received ...
//   meanwhile                  | k - 1 unpacked, k + 1 packed  |
//
// What lies in one piece on a rank, in the type that travels, is neither packed nor unpacked there.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/tensors/reshard_plan.h"
#include "runtime/tensors/staging.h"

namespace trireme::tensors {

class Resharder {
 public:
  /// Local: plans this rank's part. `world` is over host memory, holds the ranks that the layouts name, and
  /// outlives this; of `reshard` nothing is kept. Throws invalid_config listing the mistakes of `reshard`.
  Resharder(comm::Communicator& world, const Reshard& reshard);

  /// Moves everything: on return `to` holds what its layout says, but for shared() matrices, which it reads
  /// from `from`, and for padding, which is left alone. Staging is allocated by the first call and kept.
  /// Collective over: the ranks of either layout; others may call, and return at once. A rank without one of
  /// the roles gives no blocks for it. Throws: what send_recv throws; internal if the memory is not of the
  /// layout's type or number of blocks.
  void run(const BlockMemory& from, const BlockMemory& to);
  /// The same to what is no memory (ReshardOptions::to_memory is off). Whatever `to` throws leaves others
  /// waiting, so it keeps its errors until this has returned.
  void run(const BlockMemory& from, ReshardTarget& to);

  /// Matrices that this rank holds alike in both layouts and that run() therefore leaves where they are.
  const std::vector<Shared>& shared() const { return plan_.shared; }
  const RankPlan& plan() const { return plan_; }
  /// What this rank sends to and receives from others in each run.
  int64_t sent_bytes() const;
  int64_t received_bytes() const;

 private:
  // One side's buffers: round k of this rank's rounds uses the one of k's parity.
  using Buffers = std::array<std::unique_ptr<std::byte[]>, 2>;
  struct Side {
    bool has_role = false;
    comm::DType dtype = comm::DType::bf16;
    size_t num_blocks = 0;
  };
  static Side side_of(const Reshard& reshard, const Layout& layout, int rank);
  static void check(const Side& side, const BlockMemory& memory);
  void allocate_staging();
  comm::WorkHandle start(size_t k, const BlockMemory& from, const BlockMemory& to);
  void run(const BlockMemory& from, const BlockMemory& to, ReshardTarget& target);

  comm::Communicator& world_;
  comm::DType wire_;
  Side from_, to_;
  bool to_memory_;
  RankPlan plan_;
  Buffers packed_, received_;
};

}  // namespace trireme::tensors
