#include "runtime/comm/staged_communicator.h"

#include <algorithm>
#include <deque>

#include "runtime/base/error.h"
#include "runtime/comm/collective_call.h"

namespace trireme::comm {

class StagedCommunicator::Staging {
 public:
  Staging(StagedCommunicator& owner, ConstBufferView gpu)
      : owner_(owner), view_{nullptr, gpu.count, gpu.dtype} {
    if (view_.bytes() == 0) return;
    auto& free = owner_.free_;
    const auto fits =
        std::find_if(free.begin(), free.end(), [&](const Block& b) { return b.bytes >= view_.bytes(); });
    if (fits != free.end()) {
      block_ = *fits;
      free.erase(fits);
    } else {
      block_ = {owner_.gpu_.allocate_pinned(view_.bytes()), view_.bytes()};
    }
    view_.data = block_.memory;
  }
  ~Staging() {
    if (block_.memory) owner_.free_.push_back(block_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  BufferView view() const { return view_; }
  void fetch(ConstBufferView from) const { move(view_.data, from.data); }
  void deliver(BufferView to) const { move(to.data, view_.data); }

 private:
  void move(void* to, const void* from) const {
    if (view_.bytes() == 0) return;
    owner_.gpu_.copy(to, from, view_.bytes(), owner_.compute_);
    owner_.gpu_.synchronize(owner_.compute_);
  }

  StagedCommunicator& owner_;
  BufferView view_;
  Block block_{nullptr, 0};
};

// A host operation, the pinned memory that it works on, and where its results go.
class StagedCommunicator::StagedWork : public Work {
 public:
  explicit StagedWork(StagedCommunicator& owner) : owner_(owner) {}
  ~StagedWork() override {
    try {
      wait();
    } catch (const std::exception&) {  // whoever wants to know calls wait()
    }
  }

  /// A copy of what the caller's compute stream leaves in `gpu`.
  BufferView fetch(ConstBufferView gpu) {
    const Staging& staging = staged_.emplace_back(owner_, gpu);
    staging.fetch(gpu);
    return staging.view();
  }
  /// What `gpu` becomes once the work has ended.
  BufferView deliver_to(BufferView gpu) {
    results_.push_back({&staged_.emplace_back(owner_, gpu), gpu});
    return results_.back().staging->view();
  }
  BufferView fetch_and_deliver(BufferView gpu) {
    const BufferView view = fetch(gpu);
    results_.push_back({&staged_.back(), gpu});
    return view;
  }
  void start(WorkHandle work) { work_ = std::move(work); }

  void wait() override {
    if (!work_) return;
    const WorkHandle work = std::move(work_);
    work->wait();
    for (const Result& result : results_) result.staging->deliver(result.gpu);
  }
  bool done() override { return !work_ || work_->done(); }

 private:
  struct Result {
    const Staging* staging;
    BufferView gpu;
  };
  StagedCommunicator& owner_;
  std::deque<Staging> staged_;  // outlives work_, which uses it
  std::vector<Result> results_;
  WorkHandle work_;
};

StagedCommunicator::StagedCommunicator(GpuCalls& gpu, Communicator& host, GpuStream compute)
    : gpu_(gpu), host_(host), compute_(compute) {}

StagedCommunicator::~StagedCommunicator() {
  for (const Block& block : free_) {
    try {
      gpu_.free_pinned(block.memory);
    } catch (const Error&) {  // a failed GPU has nothing left to give back
    }
  }
}

void StagedCommunicator::barrier() {
  gpu_.synchronize(compute_);
  host_.barrier();
}

WorkHandle StagedCommunicator::broadcast_async(BufferView data, int root) {
  check_broadcast(*this, data, root);
  auto work = std::make_unique<StagedWork>(*this);
  work->start(host_.broadcast_async(work->fetch_and_deliver(data), root));
  return work;
}

WorkHandle StagedCommunicator::all_reduce_async(BufferView data, ReduceOp op) {
  check_all_reduce(*this, data, op);
  auto work = std::make_unique<StagedWork>(*this);
  work->start(host_.all_reduce_async(work->fetch_and_deliver(data), op));
  return work;
}

WorkHandle StagedCommunicator::all_gather_async(ConstBufferView in, BufferView out) {
  check_all_gather(*this, in, out);
  auto work = std::make_unique<StagedWork>(*this);
  const BufferView from = work->fetch(in), to = work->deliver_to(out);
  work->start(host_.all_gather_async(from, to));
  return work;
}

WorkHandle StagedCommunicator::all_gather_v_async(ConstBufferView in, BufferView out,
                                                  std::span<const int64_t> counts) {
  check_all_gather_v(*this, in, out, counts);
  auto work = std::make_unique<StagedWork>(*this);
  const BufferView from = work->fetch(in), to = work->deliver_to(out);
  work->start(host_.all_gather_v_async(from, to, counts));
  return work;
}

WorkHandle StagedCommunicator::reduce_scatter_async(ConstBufferView in, BufferView out, ReduceOp op) {
  check_reduce_scatter(*this, in, out, op);
  auto work = std::make_unique<StagedWork>(*this);
  const BufferView from = work->fetch(in), to = work->deliver_to(out);
  work->start(host_.reduce_scatter_async(from, to, op));
  return work;
}

WorkHandle StagedCommunicator::reduce_scatter_v_async(ConstBufferView in, BufferView out,
                                                      std::span<const int64_t> counts, ReduceOp op) {
  check_reduce_scatter_v(*this, in, out, counts, op);
  auto work = std::make_unique<StagedWork>(*this);
  const BufferView from = work->fetch(in), to = work->deliver_to(out);
  work->start(host_.reduce_scatter_v_async(from, to, counts, op));
  return work;
}

WorkHandle StagedCommunicator::all_to_all_v_async(ConstBufferView in, std::span<const int64_t> send_counts,
                                                  BufferView out, std::span<const int64_t> recv_counts) {
  check_all_to_all_v(*this, in, send_counts, out, recv_counts);
  auto work = std::make_unique<StagedWork>(*this);
  const BufferView from = work->fetch(in), to = work->deliver_to(out);
  work->start(host_.all_to_all_v_async(from, send_counts, to, recv_counts));
  return work;
}

WorkHandle StagedCommunicator::send_recv_async(std::span<const Send> sends,
                                               std::span<const Receive> receives) {
  check_send_recv(*this, sends, receives);
  auto work = std::make_unique<StagedWork>(*this);
  std::vector<Send> leaving;
  std::vector<Receive> arriving;
  for (const Send& send : sends) leaving.push_back({send.to, work->fetch(send.data)});
  for (const Receive& receive : receives) arriving.push_back({receive.from, work->deliver_to(receive.data)});
  work->start(host_.send_recv_async(leaving, arriving));
  return work;
}

}  // namespace trireme::comm
