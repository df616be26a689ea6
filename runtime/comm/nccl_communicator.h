// Collectives between GPUs through NCCL, on a stream of their own beside the caller's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/gpu_calls.h"

namespace trireme::comm {

struct NcclOptions {
  /// The stream whose work operations follow, and that follows them: the caller's compute stream.
  GpuStream compute = nullptr;
  /// An operation that has not ended by then after it was enqueued, or an opening, is an error (timeout).
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// The operations of all communicators of one GPU in this process run one after the other, in the order of
/// the calls: kernels of two communicators that wait for their peers side by side could wait forever. That
/// order must be the same on all ranks that the communicators share.
/// Blocking calls return when the operation is enqueued: what the caller enqueues on its compute stream
/// afterwards sees the result. barrier() and Work::wait() wait on the host. An error of NCCL or of a peer
/// shows in the next call, in wait(), or (a watching thread sees to it) as an abort of what is enqueued.
/// Reductions are NCCL's own: the same bits on all ranks, in an order fixed by the topology and not by rank.
/// Two ranks that exchange messages give those between them in the same groups (NCCL's rule). One without
/// elements is not sent: a peer that expects some sees it in the timeout.
class NcclCommunicator : public Communicator {
 public:
  /// This rank's GPU is the calling thread's current one. `host`: the same ranks, which carry NCCL's id; it
  /// outlives this, and is aborted with it.
  /// Collective over: host. Throws: nccl (two ranks on one GPU among others), timeout, peer_failed.
  NcclCommunicator(GpuCalls& gpu, NcclCalls& nccl, Communicator& host, NcclOptions options = {});
  /// Aborts, without a word to other ranks, what close() has not ended.
  ~NcclCommunicator() override;

  /// Ends in good order. Collective over: the group. Throws: nccl, timeout, peer_failed.
  void close();

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

  void abort(const std::string& why) noexcept override;
  std::string abort_reason() const override;

 private:
  using Clock = std::chrono::steady_clock;
  class Flight;  // one enqueued operation
  class FlightWork;
  struct LaunchOrder;  // of one GPU's operations
  static std::shared_ptr<LaunchOrder> order_of(GpuCalls& gpu, int device);

  void open();
  void release() noexcept;
  /// Enqueues what `issue` calls, after the compute stream's past.
  std::shared_ptr<Flight> enqueue(const std::string& what, const std::function<NcclResult()>& issue);
  WorkHandle start(const std::string& what, const std::function<NcclResult()>& issue);
  using Issue = std::function<void(NcclResult)>;
  NcclResult grouped(const std::function<void(const Issue&)>& calls);
  NcclResult exchange(std::span<const Send> sends, std::span<const Receive> receives);
  void copy(BufferView to, ConstBufferView from);
  void settle(NcclResult result, const std::string& what, std::unique_lock<std::mutex>& lock);
  void wait(Flight& flight);
  void watch();
  std::optional<Error> nccl_error();
  std::optional<Error> trouble();
  void throw_if_ended();
  void end(const Error& error) noexcept;

  GpuCalls& gpu_;
  NcclCalls& nccl_;
  Communicator& host_;
  const NcclOptions options_;
  const int device_;
  const std::shared_ptr<LaunchOrder> order_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  NcclHandle comm_ = nullptr;
  GpuStream stream_ = nullptr;
  GpuEvent past_ = nullptr;       // the compute stream's work before an operation
  void* barrier_data_ = nullptr;  // one i32
  std::deque<std::shared_ptr<Flight>> flights_;
  std::shared_ptr<const Error> ended_by_;
  bool stop_ = false;
  std::atomic<bool> closed_{false};
  std::thread watcher_;
};

}  // namespace trireme::comm
