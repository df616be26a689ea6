// Collectives over one group of ranks. Three implementations behind one interface: threads of one
// process (LocalWorld), MPI, and NCCL. All ranks of the group call the same operations in the same
// order; a mismatch is an internal error where it can be seen, and a stall that the supervisor names
// where it can't. Results are the same bits on every rank, and the same bits in every run: reductions
// add in rank order.
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

/// One collective under way. wait() throws what went wrong. Destroying it unfinished waits.
class Work {
 public:
  virtual ~Work() = default;
  virtual void wait() = 0;
  virtual bool done() = 0;
};
using WorkHandle = std::unique_ptr<Work>;

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const std::string& name() const = 0;  // "world", "actor", "rollout", "actor.dp", ...
  virtual int rank() const = 0;                 // in this group
  virtual int size() const = 0;
  virtual Device device() const = 0;  // where its buffers must lie

  // Collective over: this group, all members, same order. They return when the caller's buffers
  // may be used again (GPU: when the operation is enqueued on the communicator's stream).
  // Throws: mpi / nccl if the library failed, peer_failed after abort(), internal on a misuse that
  // this rank can see (wrong device, counts that do not fit).

  virtual void barrier() = 0;
  virtual void broadcast(BufferView data, int root) = 0;
  /// In place; the same bits on all ranks. u8 supports max and min only.
  virtual void all_reduce(BufferView data, ReduceOp op = ReduceOp::sum) = 0;
  /// out.count == size() * in.count; rank r's part lies at r * in.count.
  virtual void all_gather(ConstBufferView in, BufferView out) = 0;
  /// Uneven: rank r contributes counts[r] elements; out holds them in rank order. counts equal everywhere.
  virtual void all_gather_v(ConstBufferView in, BufferView out, std::span<const int64_t> counts) = 0;
  /// in.count == size() * out.count; rank r receives the reduction of part r.
  virtual void reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op = ReduceOp::sum) = 0;
  /// Rank r sends send_counts[d] elements to rank d (parts in rank order) and receives recv_counts[s] from s.
  virtual void all_to_all_v(ConstBufferView in, std::span<const int64_t> send_counts, BufferView out,
                            std::span<const int64_t> recv_counts) = 0;

  /// Non-blocking forms; buffers must stay untouched until wait().
  virtual WorkHandle all_reduce_async(BufferView data, ReduceOp op = ReduceOp::sum) = 0;
  virtual WorkHandle broadcast_async(BufferView data, int root) = 0;

  /// Any thread: every operation under way or still to come on this rank ends in peer_failed, on every
  /// communicator that shares its transport; the other ranks are told as far as that is possible
  /// without their help. There is no way back: report and exit.
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
