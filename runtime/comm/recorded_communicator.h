// A communicator that says on the rank's page which collective it is in: what a supervisor compares between
// ranks when nothing moves any more.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/plan/rank_page.h"

namespace trireme::comm {

/// Passes everything on to another communicator; some tens of nanoseconds a call. Messages between two ranks
/// are not counted, since not all ranks of the group make them.
class RecordedCommunicator : public Communicator {
 public:
  /// Both outlive this, and all work that it starts. `name`: on the page, the same on all ranks of the group
  /// and on no others; " on GPUs" is added where its buffers lie there. Local.
  RecordedCommunicator(Communicator& inner, plan::RankPage& page, const std::string& name);

  const std::string& name() const override { return inner_.name(); }
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Device device() const override { return inner_.device(); }

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

  void abort(const std::string& why) noexcept override { inner_.abort(why); }
  std::string abort_reason() const override { return inner_.abort_reason(); }
  Communicator& host() override;

 private:
  class RecordedWork;
  template <typename Start>
  WorkHandle record(const char* op, DType dtype, int64_t count, Start start);

  Communicator& inner_;
  plan::RankPage& page_;
  int slot_;
  int under_way_ = 0;  // the page shows the last one begun, as running until all have ended
};

}  // namespace trireme::comm
