#include "runtime/comm/recorded_communicator.h"

namespace trireme::comm {

class RecordedCommunicator::RecordedWork : public Work {
 public:
  RecordedWork(RecordedCommunicator& owner, WorkHandle inner) : owner_(owner), inner_(std::move(inner)) {}
  ~RecordedWork() override {
    inner_.reset();  // waits
    end();
  }
  void wait() override {
    inner_->wait();
    end();
  }
  void join() override {
    inner_->join();
    end();
  }
  bool done() override {
    if (!inner_->done()) return false;
    end();
    return true;
  }

 private:
  void end() {
    if (ended_) return;
    ended_ = true;
    if (--owner_.under_way_ == 0) owner_.page_.end_collective(owner_.slot_);
  }

  RecordedCommunicator& owner_;
  WorkHandle inner_;
  bool ended_ = false;
};

RecordedCommunicator::RecordedCommunicator(Communicator& inner, plan::RankPage& page, const std::string& name)
    : inner_(inner),
      page_(page),
      slot_(page.communicator_slot(name + (inner.device() == Device::gpu ? " on GPUs" : ""))) {}

template <typename Start>
WorkHandle RecordedCommunicator::record(const char* op, DType dtype, int64_t count, Start start) {
  page_.begin_collective(slot_, op, to_string(dtype), count);
  ++under_way_;
  try {
    return std::make_unique<RecordedWork>(*this, start());
  } catch (...) {
    if (--under_way_ == 0) page_.end_collective(slot_);
    throw;
  }
}

void RecordedCommunicator::barrier() {
  page_.begin_collective(slot_, "barrier", "", 0);
  inner_.barrier();
  if (under_way_ == 0) page_.end_collective(slot_);
}

WorkHandle RecordedCommunicator::broadcast_async(BufferView data, int root) {
  return record("broadcast", data.dtype, data.count, [&] { return inner_.broadcast_async(data, root); });
}

WorkHandle RecordedCommunicator::all_reduce_async(BufferView data, ReduceOp op) {
  return record("all_reduce", data.dtype, data.count, [&] { return inner_.all_reduce_async(data, op); });
}

WorkHandle RecordedCommunicator::all_gather_async(ConstBufferView in, BufferView out) {
  return record("all_gather", in.dtype, in.count, [&] { return inner_.all_gather_async(in, out); });
}

WorkHandle RecordedCommunicator::all_gather_v_async(ConstBufferView in, BufferView out,
                                                    std::span<const int64_t> counts) {
  return record("all_gather_v", in.dtype, out.count,
                [&] { return inner_.all_gather_v_async(in, out, counts); });
}

WorkHandle RecordedCommunicator::reduce_scatter_async(ConstBufferView in, BufferView out, ReduceOp op) {
  return record("reduce_scatter", in.dtype, out.count,
                [&] { return inner_.reduce_scatter_async(in, out, op); });
}

WorkHandle RecordedCommunicator::reduce_scatter_v_async(ConstBufferView in, BufferView out,
                                                        std::span<const int64_t> counts, ReduceOp op) {
  return record("reduce_scatter_v", in.dtype, in.count,
                [&] { return inner_.reduce_scatter_v_async(in, out, counts, op); });
}

WorkHandle RecordedCommunicator::all_to_all_v_async(ConstBufferView in, std::span<const int64_t> send_counts,
                                                    BufferView out, std::span<const int64_t> recv_counts) {
  return record("all_to_all_v", in.dtype, in.count,
                [&] { return inner_.all_to_all_v_async(in, send_counts, out, recv_counts); });
}

WorkHandle RecordedCommunicator::send_recv_async(std::span<const Send> sends,
                                                 std::span<const Receive> receives) {
  return inner_.send_recv_async(sends, receives);
}

Communicator& RecordedCommunicator::host() {
  Communicator& host = inner_.host();
  return &host == &inner_ ? *this : host;
}

}  // namespace trireme::comm
