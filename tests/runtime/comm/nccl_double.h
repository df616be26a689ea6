// A double of NCCL over host memory, threads as ranks: collectives block their stream until all ranks have
// entered.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/runtime/comm/gpu_double.h"

namespace trireme::comm {

/// One rank's NCCL. Refuses two ranks on one GPU, calls that differ between ranks, and the use of a
/// communicator that was aborted, destroyed or not yet opened by all; says in_progress where NCCL may.
class NcclDouble : public NcclCalls {
 public:
  explicit NcclDouble(GpuDouble& gpu);
  ~NcclDouble() override;

  std::string version() override { return "double"; }
  std::string text(NcclResult result, NcclHandle comm) override;
  NcclResult get_unique_id(NcclId* id) override;
  NcclResult init(NcclHandle* comm, int size, const NcclId& id, int rank) override;
  NcclResult async_error(NcclHandle comm, NcclResult* state) override;
  NcclResult finalize(NcclHandle comm) override;
  NcclResult destroy(NcclHandle comm) override;
  NcclResult abort(NcclHandle comm) override;
  NcclResult broadcast(BufferView data, int root, NcclHandle comm, GpuStream stream) override;
  NcclResult all_reduce(BufferView data, ReduceOp op, NcclHandle comm, GpuStream stream) override;
  NcclResult all_gather(ConstBufferView in, BufferView out, NcclHandle comm, GpuStream stream) override;
  NcclResult reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op, NcclHandle comm,
                            GpuStream stream) override;
  NcclResult reduce(ConstBufferView in, BufferView out, ReduceOp op, int root, NcclHandle comm,
                    GpuStream stream) override;
  NcclResult send(ConstBufferView data, int to, NcclHandle comm, GpuStream stream) override;
  NcclResult receive(BufferView data, int from, NcclHandle comm, GpuStream stream) override;
  NcclResult group_start() override;
  NcclResult group_end() override;

  /// Calls that were refused because their communicator had been aborted or destroyed.
  int uses_after_end() const { return uses_after_end_; }
  /// The communicators of what ran on this GPU, in that order, and how many operations ran side by side.
  std::vector<NcclHandle> ran() const;
  int side_by_side() const { return side_by_side_; }
  /// What the next call returns instead of doing its work; once.
  std::atomic<NcclResult> fail_next{NcclResult::success};

 private:
  struct Fabric;  // what the ranks of one communicator share
  struct Comm;    // one rank's part of it
  struct Item {   // an operation on its way to a stream
    Comm* comm;
    GpuStream stream;
    // Those of a group run side by side: all begin, then all do their work, then all wait for others.
    std::function<void()> begin, work, wait;
  };
  NcclResult submit(
      NcclHandle comm, GpuStream stream, std::function<void()> work, std::function<void()> begin = [] {},
      std::function<void()> wait = [] {});
  NcclResult launch(std::vector<Item> items);

  GpuDouble& gpu_;
  std::vector<std::unique_ptr<Comm>> comms_;
  int group_depth_ = 0;
  std::vector<Item> group_;
  std::atomic<int> uses_after_end_{0}, running_{0}, side_by_side_{0};
  mutable std::mutex ran_mutex_;
  std::vector<NcclHandle> ran_;
};

}  // namespace trireme::comm
