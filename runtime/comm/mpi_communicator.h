// Collectives between processes, over host memory.
#pragma once

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi_collectives.h"
#include "runtime/comm/mpi_thread.h"

namespace trireme::comm {

class MpiCommunicator : public Communicator {
 public:
  /// The group of these ranks of MPI_COMM_WORLD, which must be ascending and hold this rank. `thread` must
  /// outlive it; one caller at a time.
  /// Collective over: the group, same arguments. Throws: mpi.
  MpiCommunicator(MpiThread& thread, const std::string& name, const std::vector<int>& world_ranks,
                  MpiLimits limits = {});
  // Its destructor does not communicate, so MPI's own communicator stays until MPI_Finalize.

  const std::string& name() const override { return group_.name; }
  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  Device device() const override { return Device::cpu; }

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

  void abort(const std::string& why) noexcept override { group_.thread.abort(name() + ": " + why); }
  std::string abort_reason() const override { return group_.thread.abort_reason(); }

 private:
  int next_tag();

  MpiGroup group_;
  int num_tags_ = 1;
  int64_t operations_ = 0;
  std::vector<int64_t> sent_, received_;  // messages to and from each rank
};

/// MPI_COMM_WORLD's ranks, ascending.
std::vector<int> all_ranks(const MpiThread& thread);

/// "Open MPI v4.1.4, ..."; may be called without a session.
std::string mpi_version();

}  // namespace trireme::comm
