// A communicator that counts the bytes of the messages that leave and reach this rank. Of everything else it
// is only asked for its face.
#pragma once

#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"

namespace trireme::tensors {

class CountingCommunicator : public comm::Communicator {
 public:
  explicit CountingCommunicator(comm::Communicator& inner) : inner_(inner) {}
  int64_t sent = 0, received = 0;

  comm::WorkHandle send_recv_async(std::span<const comm::Send> sends,
                                   std::span<const comm::Receive> receives) override {
    for (const comm::Send& send : sends) {
      TRIREME_CHECK(send.to != rank(), "a message to oneself");
      sent += static_cast<int64_t>(send.data.bytes());
    }
    for (const comm::Receive& receive : receives) received += static_cast<int64_t>(receive.data.bytes());
    return inner_.send_recv_async(sends, receives);
  }

  const std::string& name() const override { return inner_.name(); }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  comm::Device device() const override { return inner_.device(); }
  void abort(const std::string& why) noexcept override { inner_.abort(why); }
  std::string abort_reason() const override { return inner_.abort_reason(); }

  void barrier() override { not_expected(); }
  comm::WorkHandle broadcast_async(comm::BufferView, int) override { not_expected(); }
  comm::WorkHandle all_reduce_async(comm::BufferView, comm::ReduceOp) override { not_expected(); }
  comm::WorkHandle all_gather_async(comm::ConstBufferView, comm::BufferView) override { not_expected(); }
  comm::WorkHandle all_gather_v_async(comm::ConstBufferView, comm::BufferView,
                                      std::span<const int64_t>) override {
    not_expected();
  }
  comm::WorkHandle reduce_scatter_async(comm::ConstBufferView, comm::BufferView, comm::ReduceOp) override {
    not_expected();
  }
  comm::WorkHandle reduce_scatter_v_async(comm::ConstBufferView, comm::BufferView, std::span<const int64_t>,
                                          comm::ReduceOp) override {
    not_expected();
  }
  comm::WorkHandle all_to_all_v_async(comm::ConstBufferView, std::span<const int64_t>, comm::BufferView,
                                      std::span<const int64_t>) override {
    not_expected();
  }

 private:
  [[noreturn]] static void not_expected() {
    fail(ErrorCode::internal, "only messages between ranks were expected");
  }

  comm::Communicator& inner_;
};

}  // namespace trireme::tensors
