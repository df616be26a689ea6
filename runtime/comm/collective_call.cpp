#include "runtime/comm/collective_call.h"

#include "runtime/base/error.h"

namespace trireme::comm {
namespace {

void check_view(const Communicator& comm, Collective kind, const char* which, ConstBufferView view) {
  TRIREME_CHECK(view.count >= 0, "{}: {}: {} has {} elements", comm.name(), to_string(kind), which,
                view.count);
  TRIREME_CHECK(view.count == 0 || view.data, "{}: {}: {} is null", comm.name(), to_string(kind), which);
  TRIREME_CHECK(view.device == comm.device(), "{}: {}: {} lies on the {}, the communicator works on the {}",
                comm.name(), to_string(kind), which, view.device == Device::cpu ? "CPU" : "GPU",
                comm.device() == Device::cpu ? "CPU" : "GPU");
}

void check_views(const Communicator& comm, Collective kind, ConstBufferView in, ConstBufferView out) {
  check_view(comm, kind, "in", in);
  check_view(comm, kind, "out", out);
  TRIREME_CHECK(in.dtype == out.dtype, "{}: {}: in is {}, out is {}", comm.name(), to_string(kind),
                to_string(in.dtype), to_string(out.dtype));
}

void check_op(const Communicator& comm, Collective kind, DType dtype, ReduceOp op) {
  TRIREME_CHECK(dtype != DType::u8 || op != ReduceOp::sum, "{}: {}: a sum of u8 overflows; use i32 or i64",
                comm.name(), to_string(kind));
}

int64_t total(const Communicator& comm, Collective kind, const char* which, std::span<const int64_t> counts) {
  TRIREME_CHECK(static_cast<int>(counts.size()) == comm.size(), "{}: {}: {} {} for {} ranks", comm.name(),
                to_string(kind), counts.size(), which, comm.size());
  int64_t sum = 0;
  for (const int64_t count : counts) {
    TRIREME_CHECK(count >= 0, "{}: {}: {} hold {}", comm.name(), to_string(kind), which, count);
    sum += count;
  }
  return sum;
}

// FNV-1a over the bytes: the same on every rank.
uint64_t hash(std::span<const int64_t> counts) {
  uint64_t h = 14695981039346656037ull;
  for (const int64_t count : counts)
    for (int byte = 0; byte < 8; ++byte)
      h = (h ^ (static_cast<uint64_t>(count) >> (8 * byte) & 0xff)) * 1099511628211ull;
  return h;
}

bool reduces(Collective kind) {
  return kind == Collective::all_reduce || kind == Collective::reduce_scatter ||
         kind == Collective::reduce_scatter_v;
}

}  // namespace

const char* to_string(Collective kind) {
  switch (kind) {
    case Collective::barrier:
      return "barrier";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::all_gather_v:
      return "all_gather_v";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::reduce_scatter_v:
      return "reduce_scatter_v";
    case Collective::all_to_all_v:
      return "all_to_all_v";
    case Collective::send_recv:
      return "send_recv";
  }
  return "unknown collective";
}

std::string CallHeader::text() const {
  switch (kind) {
    case Collective::barrier:
      return "barrier";
    case Collective::all_to_all_v:
      return fmt::format("all_to_all_v({})", to_string(dtype));
    case Collective::all_gather_v:
      return fmt::format("all_gather_v({}, {} in all)", to_string(dtype), count);
    case Collective::reduce_scatter_v:
      return fmt::format("reduce_scatter_v({}, {}, {} in all)", to_string(op), to_string(dtype), count);
    case Collective::broadcast:
      return fmt::format("broadcast({} x {}, root {})", count, to_string(dtype), root);
    default:
      break;
  }
  if (reduces(kind))
    return fmt::format("{}({}, {} x {})", to_string(kind), to_string(op), count, to_string(dtype));
  return fmt::format("{}({} x {})", to_string(kind), count, to_string(dtype));
}

void check_same_call(const std::string& communicator, std::span<const CallHeader> calls) {
  for (size_t r = 1; r < calls.size(); ++r)
    if (!(calls[r] == calls[0]))
      throw Error(ErrorCode::internal,
                  fmt::format("ranks disagree on the next collective: rank 0 called {}, rank {} called {}{}",
                              calls[0].text(), r, calls[r].text(),
                              calls[0].text() == calls[r].text() ? " with other counts" : ""),
                  "communicator " + communicator);
}

CallHeader check_broadcast(const Communicator& comm, BufferView data, int root) {
  check_view(comm, Collective::broadcast, "data", data);
  TRIREME_CHECK(root >= 0 && root < comm.size(), "{}: broadcast: root {} of {} ranks", comm.name(), root,
                comm.size());
  return {.kind = Collective::broadcast, .dtype = data.dtype, .root = root, .count = data.count};
}

CallHeader check_all_reduce(const Communicator& comm, BufferView data, ReduceOp op) {
  check_view(comm, Collective::all_reduce, "data", data);
  check_op(comm, Collective::all_reduce, data.dtype, op);
  return {.kind = Collective::all_reduce, .dtype = data.dtype, .op = op, .count = data.count};
}

CallHeader check_all_gather(const Communicator& comm, ConstBufferView in, BufferView out) {
  check_views(comm, Collective::all_gather, in, out);
  TRIREME_CHECK(out.count == in.count * comm.size(),
                "{}: all_gather: {} elements from each of {} ranks into {}", comm.name(), in.count,
                comm.size(), out.count);
  return {.kind = Collective::all_gather, .dtype = in.dtype, .count = in.count};
}

CallHeader check_all_gather_v(const Communicator& comm, ConstBufferView in, BufferView out,
                              std::span<const int64_t> counts) {
  check_views(comm, Collective::all_gather_v, in, out);
  const int64_t sum = total(comm, Collective::all_gather_v, "counts", counts);
  TRIREME_CHECK(in.count == counts[comm.rank()], "{}: all_gather_v: rank {} gives {} elements, counts say {}",
                comm.name(), comm.rank(), in.count, counts[comm.rank()]);
  TRIREME_CHECK(out.count == sum, "{}: all_gather_v: {} elements into {}", comm.name(), sum, out.count);
  return {.kind = Collective::all_gather_v, .dtype = in.dtype, .count = sum, .counts_hash = hash(counts)};
}

CallHeader check_reduce_scatter(const Communicator& comm, ConstBufferView in, BufferView out, ReduceOp op) {
  check_views(comm, Collective::reduce_scatter, in, out);
  check_op(comm, Collective::reduce_scatter, in.dtype, op);
  TRIREME_CHECK(in.count == out.count * comm.size(),
                "{}: reduce_scatter: {} elements into {} for each of {} ranks", comm.name(), in.count,
                out.count, comm.size());
  return {.kind = Collective::reduce_scatter, .dtype = in.dtype, .op = op, .count = in.count};
}

CallHeader check_reduce_scatter_v(const Communicator& comm, ConstBufferView in, BufferView out,
                                  std::span<const int64_t> counts, ReduceOp op) {
  constexpr Collective kind = Collective::reduce_scatter_v;
  check_views(comm, kind, in, out);
  check_op(comm, kind, in.dtype, op);
  const int64_t sum = total(comm, kind, "counts", counts);
  TRIREME_CHECK(in.count == sum, "{}: reduce_scatter_v: counts add up to {}, in holds {}", comm.name(), sum,
                in.count);
  TRIREME_CHECK(out.count == counts[comm.rank()],
                "{}: reduce_scatter_v: rank {} takes {} elements, counts say {}", comm.name(), comm.rank(),
                out.count, counts[comm.rank()]);
  return {.kind = kind, .dtype = in.dtype, .op = op, .count = sum, .counts_hash = hash(counts)};
}

CallHeader check_all_to_all_v(const Communicator& comm, ConstBufferView in,
                              std::span<const int64_t> send_counts, BufferView out,
                              std::span<const int64_t> recv_counts) {
  check_views(comm, Collective::all_to_all_v, in, out);
  const int64_t sent = total(comm, Collective::all_to_all_v, "send counts", send_counts);
  const int64_t received = total(comm, Collective::all_to_all_v, "receive counts", recv_counts);
  TRIREME_CHECK(in.count == sent, "{}: all_to_all_v: send counts add up to {}, in holds {}", comm.name(),
                sent, in.count);
  TRIREME_CHECK(out.count == received, "{}: all_to_all_v: receive counts add up to {}, out holds {}",
                comm.name(), received, out.count);
  TRIREME_CHECK(send_counts[comm.rank()] == recv_counts[comm.rank()],
                "{}: all_to_all_v: rank {} sends itself {} elements and receives {}", comm.name(),
                comm.rank(), send_counts[comm.rank()], recv_counts[comm.rank()]);
  return {.kind = Collective::all_to_all_v, .dtype = in.dtype};
}

SendRecvCall check_send_recv(const Communicator& comm, std::span<const Send> sends,
                             std::span<const Receive> receives) {
  const auto check = [&](const char* which, int peer, ConstBufferView data) {
    check_view(comm, Collective::send_recv, which, data);
    TRIREME_CHECK(peer >= 0 && peer < comm.size(), "{}: send_recv: a {} rank {} of {}", comm.name(), which,
                  peer, comm.size());
  };
  SendRecvCall call;
  size_t sent = 0, received = 0;
  for (const Send& send : sends) {
    check("message to", send.to, send.data);
    sent += send.data.bytes();
    if (send.to == comm.rank()) call.own.push_back({send.data, {}});
  }
  size_t met = 0;
  for (const Receive& receive : receives) {
    check("message from", receive.from, receive.data);
    received += receive.data.bytes();
    if (receive.from != comm.rank()) continue;
    TRIREME_CHECK(met < call.own.size(),
                  "{}: send_recv: rank {} receives more messages from itself than it sends", comm.name(),
                  comm.rank());
    OwnMessage& own = call.own[met++];
    own.to = receive.data;
    TRIREME_CHECK(own.from.bytes() == own.to.bytes(),
                  "{}: send_recv: rank {} sends itself {} bytes and receives {}", comm.name(), comm.rank(),
                  own.from.bytes(), own.to.bytes());
  }
  TRIREME_CHECK(met == call.own.size(),
                "{}: send_recv: rank {} sends itself {} messages and receives {} of them", comm.name(),
                comm.rank(), call.own.size(), met);
  call.text = fmt::format("send_recv({} sends of {} bytes, {} receives of {})", sends.size(), sent,
                          receives.size(), received);
  return call;
}

}  // namespace trireme::comm
