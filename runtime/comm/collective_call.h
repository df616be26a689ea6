// What one rank asks for in one collective: checked on the spot, and compared between ranks, so that a
// mismatch is an error that names both calls instead of a hang or wrong numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme::comm {

enum class Collective : uint8_t {
  barrier,
  broadcast,
  all_reduce,
  all_gather,
  all_gather_v,
  reduce_scatter,
  reduce_scatter_v,
  all_to_all_v,
  send_recv,
};
const char* to_string(Collective kind);

/// The part of a call that all ranks must agree on. Fixed size and layout: it goes over the wire.
struct CallHeader {
  Collective kind = Collective::barrier;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  uint8_t unused = 0;
  int32_t root = 0;
  int64_t count = 0;         // elements a rank contributes; 0 where ranks may differ
  uint64_t counts_hash = 0;  // all_gather_v, reduce_scatter_v: of all ranks' counts

  bool operator==(const CallHeader&) const = default;
  /// "all_reduce(sum, 8 x f32)"
  std::string text() const;
};
static_assert(sizeof(CallHeader) == 24);

/// Throws internal if the ranks' calls differ: "world: rank 0 called A, rank 2 called B".
void check_same_call(const std::string& communicator, std::span<const CallHeader> calls);

// The arguments that a rank can check alone. Each returns the header; throws internal, and then nothing
// has been sent.
CallHeader check_broadcast(const Communicator& comm, BufferView data, int root);
CallHeader check_all_reduce(const Communicator& comm, BufferView data, ReduceOp op);
CallHeader check_all_gather(const Communicator& comm, ConstBufferView in, BufferView out);
CallHeader check_all_gather_v(const Communicator& comm, ConstBufferView in, BufferView out,
                              std::span<const int64_t> counts);
CallHeader check_reduce_scatter(const Communicator& comm, ConstBufferView in, BufferView out, ReduceOp op);
CallHeader check_reduce_scatter_v(const Communicator& comm, ConstBufferView in, BufferView out,
                                  std::span<const int64_t> counts, ReduceOp op);
CallHeader check_all_to_all_v(const Communicator& comm, ConstBufferView in,
                              std::span<const int64_t> send_counts, BufferView out,
                              std::span<const int64_t> recv_counts);

/// What a rank sends itself, in pairs.
struct OwnMessage {
  ConstBufferView from;
  BufferView to;
};
/// Checks both lists; throws internal, and then nothing has been sent. The text says what they hold.
struct SendRecvCall {
  std::vector<OwnMessage> own;
  std::string text;
};
SendRecvCall check_send_recv(const Communicator& comm, std::span<const Send> sends,
                             std::span<const Receive> receives);

}  // namespace trireme::comm
