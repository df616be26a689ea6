// The operations of NcclCommunicator as NCCL's calls; how they are enqueued is in nccl_communicator.cpp.
#include <numeric>
#include <vector>

#include "runtime/comm/collective_call.h"
#include "runtime/comm/nccl_communicator.h"

namespace trireme::comm {

void NcclCommunicator::barrier() {
  start("barrier", [&] {
    return nccl_.all_reduce({barrier_data_, 1, DType::i32, Device::gpu}, ReduceOp::max, comm_, stream_);
  })->wait();
}

WorkHandle NcclCommunicator::broadcast_async(BufferView data, int root) {
  const CallHeader call = check_broadcast(*this, data, root);
  return start(call.text(), [&] { return nccl_.broadcast(data, root, comm_, stream_); });
}

WorkHandle NcclCommunicator::all_reduce_async(BufferView data, ReduceOp op) {
  const CallHeader call = check_all_reduce(*this, data, op);
  return start(call.text(), [&] { return nccl_.all_reduce(data, op, comm_, stream_); });
}

WorkHandle NcclCommunicator::all_gather_async(ConstBufferView in, BufferView out) {
  const CallHeader call = check_all_gather(*this, in, out);
  return start(call.text(), [&] { return nccl_.all_gather(in, out, comm_, stream_); });
}

WorkHandle NcclCommunicator::all_gather_v_async(ConstBufferView in, BufferView out,
                                                std::span<const int64_t> counts) {
  const CallHeader call = check_all_gather_v(*this, in, out, counts);
  return start(call.text(), [&] {
    const int64_t begin = std::accumulate(counts.begin(), counts.begin() + rank(), int64_t{0});
    copy(out.slice(begin, in.count), in);
    return grouped([&](const Issue& issue) {
      int64_t at = 0;
      for (int r = 0; r < size(); at += counts[r++])
        if (counts[r]) issue(nccl_.broadcast(out.slice(at, counts[r]), r, comm_, stream_));
    });
  });
}

WorkHandle NcclCommunicator::reduce_scatter_async(ConstBufferView in, BufferView out, ReduceOp op) {
  const CallHeader call = check_reduce_scatter(*this, in, out, op);
  return start(call.text(), [&] { return nccl_.reduce_scatter(in, out, op, comm_, stream_); });
}

WorkHandle NcclCommunicator::reduce_scatter_v_async(ConstBufferView in, BufferView out,
                                                    std::span<const int64_t> counts, ReduceOp op) {
  const CallHeader call = check_reduce_scatter_v(*this, in, out, counts, op);
  return start(call.text(), [&] {
    return grouped([&](const Issue& issue) {
      int64_t at = 0;
      for (int r = 0; r < size(); at += counts[r++])
        if (counts[r]) issue(nccl_.reduce(in.slice(at, counts[r]), out, op, r, comm_, stream_));
    });
  });
}

WorkHandle NcclCommunicator::all_to_all_v_async(ConstBufferView in, std::span<const int64_t> send_counts,
                                                BufferView out, std::span<const int64_t> recv_counts) {
  const CallHeader call = check_all_to_all_v(*this, in, send_counts, out, recv_counts);
  return start(call.text(), [&] {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    int64_t from = 0, to = 0;
    for (int r = 0; r < size(); from += send_counts[r], to += recv_counts[r], ++r) {
      const ConstBufferView leaving = in.slice(from, send_counts[r]);
      const BufferView arriving = out.slice(to, recv_counts[r]);
      if (r == rank()) {
        copy(arriving, leaving);
        continue;
      }
      if (leaving.count) sends.push_back({r, leaving});
      if (arriving.count) receives.push_back({r, arriving});
    }
    return exchange(sends, receives);
  });
}

WorkHandle NcclCommunicator::send_recv_async(std::span<const Send> sends, std::span<const Receive> receives) {
  const SendRecvCall call = check_send_recv(*this, sends, receives);
  return start(call.text, [&] {
    for (const OwnMessage& own : call.own) copy(own.to, own.from);
    return exchange(sends, receives);
  });
}

NcclResult NcclCommunicator::exchange(std::span<const Send> sends, std::span<const Receive> receives) {
  return grouped([&](const Issue& issue) {
    for (const Send& send : sends)
      if (send.to != rank() && send.data.count) issue(nccl_.send(send.data, send.to, comm_, stream_));
    for (const Receive& receive : receives)
      if (receive.from != rank() && receive.data.count)
        issue(nccl_.receive(receive.data, receive.from, comm_, stream_));
  });
}

void NcclCommunicator::copy(BufferView to, ConstBufferView from) {
  if (from.count && to.data != from.data) gpu_.copy(to.data, from.data, from.bytes(), stream_);
}

}  // namespace trireme::comm
