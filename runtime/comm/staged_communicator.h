// Collectives between ranks that share a GPU, which NCCL refuses: through pinned host memory and another
// communicator. To try several ranks on one GPU, not for speed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/gpu_calls.h"

namespace trireme::comm {

/// GPU buffers, in the order of the caller's compute stream; every call waits on the host. The results are
/// those of the host communicator, bit for bit.
class StagedCommunicator : public Communicator {
 public:
  /// `host` carries the data and outlives this. Local.
  StagedCommunicator(GpuCalls& gpu, Communicator& host, GpuStream compute = nullptr);
  ~StagedCommunicator() override;

  const std::string& name() const override { return host_.name(); }
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  Device device() const override { return Device::gpu; }
  Communicator& host() override { return host_; }

  void barrier() override;
  WorkHandle broadcast_async(BufferView data, int root) override;
  WorkHandle all_reduce_async(BufferView data, ReduceOp op) override;
  WorkHandle all_gather_async(ConstBufferView in, BufferView out) override;
  WorkHandle all_gather_v_async(ConstBufferView in, BufferView out, std::span<const int64_t> counts) override;
  WorkHandle reduce_scatter_async(ConstBufferView in, BufferView out, ReduceOp op) override;
  WorkHandle reduce_scatter_v_async(ConstBufferView in, BufferView out, std::span<const int64_t> counts,
                                    ReduceOp op) override;
  WorkHandle all_to_all_v_async(ConstBufferView in, std::span<const int64_t> send_counts, BufferView out,
                                std::span<const int64_t> recv_counts) override;
  WorkHandle send_recv_async(std::span<const Send> sends, std::span<const Receive> receives) override;

  void abort(const std::string& why) noexcept override { host_.abort(why); }
  std::string abort_reason() const override { return host_.abort_reason(); }

 private:
  class Staging;  // a view's copy in pinned memory
  class StagedWork;

  GpuCalls& gpu_;
  Communicator& host_;
  const GpuStream compute_;
  struct Block {
    void* memory;
    size_t bytes;
  };
  std::vector<Block> free_;  // pinned memory is slow to get: kept
};

}  // namespace trireme::comm
