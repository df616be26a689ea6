// Collectives and messages over one group of ranks. Three implementations behind one interface: threads of
// one process (LocalWorld), MPI, and NCCL. All ranks of the group call the same operations in the same order;
// a mismatch is an internal error where it can be seen, and a stall that the supervisor names where it can't.
// Results are the same bits on every rank, and the same bits in every run: reductions add in rank order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/buffer_view.h"

namespace trireme::comm {

enum class ReduceOp : uint8_t { sum, max, min };  // max and min: a NaN wins (on GPUs NCCL decides)
const char* to_string(ReduceOp op);

/// One operation under way. Destroying it unfinished waits, unless join() has passed it on.
class Work {
 public:
  virtual ~Work() = default;
  /// Returns when the operation has ended, and what the caller does next sees its result. Throws what went
  /// wrong.
  virtual void wait() = 0;
  virtual bool done() = 0;
  /// wait(); but on a GPU not on the host: what the caller enqueues on its compute stream from here on
  /// follows the operation.
  virtual void join() { wait(); }
};
using WorkHandle = std::unique_ptr<Work>;

/// Messages from one rank to one other, as send_recv() moves them.
struct Send {
  int to;
  ConstBufferView data;
};
struct Receive {
  int from;
  BufferView data;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const std::string& name() const = 0;  // "world", "actor", "rollout", "actor.dp", ...
  virtual int rank() const = 0;                 // in this group
  virtual int size() const = 0;
  virtual Device device() const = 0;  // where its buffers must lie

  // Collective over: this group, all members, same order; several may be under way. Buffers must stay
  // untouched until wait() or join(); counts are read at once. No count has an upper limit.
  // Throws (the call or wait()): mpi / nccl if the library failed, timeout (NCCL), peer_failed after
  // abort(), internal on a misuse that this rank can see (wrong device, counts that do not fit).

  virtual WorkHandle broadcast_async(BufferView data, int root) = 0;
  /// In place; the same bits on all ranks. u8 supports max and min only. On the CPU (threads, MPI, and GPUs
  /// staged through it) every reduction has the bits of the others: reduce_scatter_v, however it is cut,
  /// and all_gather_v after it give those of all_reduce. NCCL promises them to rounding.
  virtual WorkHandle all_reduce_async(BufferView data, ReduceOp op = ReduceOp::sum) = 0;
  /// out.count == size() * in.count; rank r's part lies at r * in.count, where `in` may be.
  virtual WorkHandle all_gather_async(ConstBufferView in, BufferView out) = 0;
  /// Uneven: rank r contributes counts[r] elements; out holds them in rank order. counts equal everywhere.
  virtual WorkHandle all_gather_v_async(ConstBufferView in, BufferView out,
                                        std::span<const int64_t> counts) = 0;
  /// in.count == size() * out.count; rank r receives the reduction of part r.
  virtual WorkHandle reduce_scatter_async(ConstBufferView in, BufferView out,
                                          ReduceOp op = ReduceOp::sum) = 0;
  /// Uneven: part r has counts[r] elements, the parts lie in rank order. counts equal everywhere.
  virtual WorkHandle reduce_scatter_v_async(ConstBufferView in, BufferView out,
                                            std::span<const int64_t> counts, ReduceOp op = ReduceOp::sum) = 0;
  /// Rank r sends send_counts[d] elements to rank d (parts in rank order) and receives recv_counts[s] from s.
  virtual WorkHandle all_to_all_v_async(ConstBufferView in, std::span<const int64_t> send_counts,
                                        BufferView out, std::span<const int64_t> recv_counts) = 0;
  /// Grouped messages: all of them move side by side. The k-th message that rank s sends to rank d, over all
  /// calls, meets the k-th that d receives from s, and has its size. What a rank sends itself it receives in
  /// the same call. Only ranks with something to send or to receive need call, in an order of their
  /// operations on this communicator that suits all of them; empty lists are a call that does nothing.
  virtual WorkHandle send_recv_async(std::span<const Send> sends, std::span<const Receive> receives) = 0;

  // The same, followed by join(): they return when the caller's buffers may be used again (GPU: when the
  // operation is enqueued, and the compute stream's later work follows it).

  virtual void barrier() = 0;  // waits on the host
  void broadcast(BufferView data, int root) { broadcast_async(data, root)->join(); }
  void all_reduce(BufferView data, ReduceOp op = ReduceOp::sum) { all_reduce_async(data, op)->join(); }
  void all_gather(ConstBufferView in, BufferView out) { all_gather_async(in, out)->join(); }
  void all_gather_v(ConstBufferView in, BufferView out, std::span<const int64_t> counts) {
    all_gather_v_async(in, out, counts)->join();
  }
  void reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op = ReduceOp::sum) {
    reduce_scatter_async(in, out, op)->join();
  }
  void reduce_scatter_v(ConstBufferView in, BufferView out, std::span<const int64_t> counts,
                        ReduceOp op = ReduceOp::sum) {
    reduce_scatter_v_async(in, out, counts, op)->join();
  }
  void all_to_all_v(ConstBufferView in, std::span<const int64_t> send_counts, BufferView out,
                    std::span<const int64_t> recv_counts) {
    all_to_all_v_async(in, send_counts, out, recv_counts)->join();
  }
  void send_recv(std::span<const Send> sends, std::span<const Receive> receives) {
    send_recv_async(sends, receives)->join();
  }

  /// Any thread: every operation under way or still to come on this rank ends in peer_failed, on every
  /// communicator that shares its transport; the other ranks are told as far as that is possible
  /// without their help. There is no way back: report and exit. Messages may still arrive in the buffers
  /// of what was under way.
  virtual void abort(const std::string& why) noexcept = 0;
  /// Why operations now fail: what abort() or the error that ended this communicator said; else empty.
  virtual std::string abort_reason() const = 0;

  /// The same ranks over host memory; itself if its buffers are host memory anyway.
  virtual Communicator& host() { return *this; }

  // Spelled out on top of the above, over host(). Collective likewise.

  /// Everybody's bytes, in rank order.
  std::vector<std::string> all_gather_strings(const std::string& mine);
  /// Root's bytes on everybody.
  std::string broadcast_string(const std::string& mine, int root);
  double all_reduce_scalar(double value, ReduceOp op = ReduceOp::sum);
};

}  // namespace trireme::comm
