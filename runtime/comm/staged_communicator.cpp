#include "runtime/comm/staged_communicator.h"

#include <algorithm>

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

class StagedCommunicator::StagedWork : public Work {
 public:
  StagedWork(BufferView data, std::unique_ptr<Staging> staging, WorkHandle work)
      : data_(data), staging_(std::move(staging)), work_(std::move(work)) {}
  ~StagedWork() override {
    try {
      wait();
    } catch (const std::exception&) {  // whoever wants to know calls wait()
    }
  }
  void wait() override {
    if (!work_) return;
    const WorkHandle work = std::move(work_);
    work->wait();
    staging_->deliver(data_);
  }
  bool done() override { return !work_ || work_->done(); }

 private:
  BufferView data_;
  std::unique_ptr<Staging> staging_;  // outlives work_, which uses it
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

void StagedCommunicator::broadcast(BufferView data, int root) {
  broadcast_async(data, root)->wait();
}

void StagedCommunicator::all_reduce(BufferView data, ReduceOp op) {
  all_reduce_async(data, op)->wait();
}

void StagedCommunicator::all_gather(ConstBufferView in, BufferView out) {
  check_all_gather(*this, in, out);
  const Staging from(*this, in), to(*this, out);
  from.fetch(in);
  host_.all_gather(from.view(), to.view());
  to.deliver(out);
}

void StagedCommunicator::all_gather_v(ConstBufferView in, BufferView out, std::span<const int64_t> counts) {
  check_all_gather_v(*this, in, out, counts);
  const Staging from(*this, in), to(*this, out);
  from.fetch(in);
  host_.all_gather_v(from.view(), to.view(), counts);
  to.deliver(out);
}

void StagedCommunicator::reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op) {
  check_reduce_scatter(*this, in, out, op);
  const Staging from(*this, in), to(*this, out);
  from.fetch(in);
  host_.reduce_scatter(from.view(), to.view(), op);
  to.deliver(out);
}

void StagedCommunicator::all_to_all_v(ConstBufferView in, std::span<const int64_t> send_counts,
                                      BufferView out, std::span<const int64_t> recv_counts) {
  check_all_to_all_v(*this, in, send_counts, out, recv_counts);
  const Staging from(*this, in), to(*this, out);
  from.fetch(in);
  host_.all_to_all_v(from.view(), send_counts, to.view(), recv_counts);
  to.deliver(out);
}

WorkHandle StagedCommunicator::all_reduce_async(BufferView data, ReduceOp op) {
  check_all_reduce(*this, data, op);
  auto staging = std::make_unique<Staging>(*this, data);
  staging->fetch(data);
  WorkHandle work = host_.all_reduce_async(staging->view(), op);
  return std::make_unique<StagedWork>(data, std::move(staging), std::move(work));
}

WorkHandle StagedCommunicator::broadcast_async(BufferView data, int root) {
  check_broadcast(*this, data, root);
  auto staging = std::make_unique<Staging>(*this, data);
  staging->fetch(data);
  WorkHandle work = host_.broadcast_async(staging->view(), root);
  return std::make_unique<StagedWork>(data, std::move(staging), std::move(work));
}

}  // namespace trireme::comm
