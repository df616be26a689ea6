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
#include "runtime/tensors/gpu_staging.h"
#include "runtime/tensors/reshard_plan.h"
#include "runtime/tensors/staging.h"

namespace trireme::tensors {

class Resharder {
 public:
  /// Local: plans this rank's part. `world` holds the ranks that the layouts name, and outlives this; what is
  /// moved lies where its buffers do, and on a GPU never touches the host. Of `reshard` nothing is kept.
  /// Throws invalid_config listing the mistakes of `reshard`; on a GPU what gpu_staging() throws.
  Resharder(comm::Communicator& world, const Reshard& reshard, const GpuToolkit& gpu = {});

  /// Moves everything: on return `to` holds what its layout says, but for shared() matrices, which it reads
  /// from `from`, and for padding, which is left alone. Staging is allocated by the first call and kept.
  /// Collective over: the ranks of either layout; others may call, and return at once. A rank without one of
  /// the roles gives no blocks for it. On a GPU all is enqueued on return, and follows and is followed by the
  /// compute stream's work. Throws: what send_recv throws; internal if the memory is not of the layout's type
  /// or number of blocks.
  void run(const BlockMemory& from, const BlockMemory& to);
  /// The same to what is no memory (ReshardOptions::to_memory is off), from host memory. Whatever `to` throws
  /// leaves others waiting, so it keeps its errors until this has returned.
  void run(const BlockMemory& from, ReshardTarget& to);

  /// Matrices that this rank holds alike in both layouts and that run() therefore leaves where they are.
  const std::vector<Shared>& shared() const { return plan_.shared; }
  const RankPlan& plan() const { return plan_; }
  /// What this rank sends to and receives from others in each run.
  int64_t sent_bytes() const;
  int64_t received_bytes() const;

 private:
  // One side's buffers: round k of this rank's rounds uses the one of k's parity.
  using Buffers = std::array<std::byte*, 2>;
  struct Side {
    bool has_role = false;
    comm::DType dtype = comm::DType::bf16;
    size_t num_blocks = 0;
  };
  static Side side_of(const Reshard& reshard, const Layout& layout, int rank);
  static void check(const Side& side, const BlockMemory& memory);
  void allocate_staging();
  comm::WorkHandle start(size_t k, const BlockMemory& from, const BlockMemory& to);
  template <typename Unpack, typename Copy>
  void run(const BlockMemory& from, const BlockMemory& to, const Unpack& unpack, const Copy& copy);

  comm::Communicator& world_;
  comm::DType wire_;
  Side from_, to_;
  bool to_memory_;
  RankPlan plan_;
  std::unique_ptr<Staging> staging_;
  bool allocated_ = false;
  Buffers packed_{}, received_{};
};

}  // namespace trireme::tensors
