// The operations of a communicator as things to be measured: one operation of one size on buffers of its own,
// with what must come out of it. Torch-free.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/gpu_calls.h"

namespace trireme::commands {

enum class CommOperation { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all_v, send_recv };
inline constexpr CommOperation kCommOperations[] = {
    CommOperation::all_reduce, CommOperation::reduce_scatter, CommOperation::all_gather,
    CommOperation::broadcast,  CommOperation::all_to_all_v,   CommOperation::send_recv};
const char* to_string(CommOperation operation);

/// What turns size over time (algorithm bandwidth) into the traffic of a rank's link (bus bandwidth), as
/// nccl-tests count it (its doc/PERFORMANCE.md).
double bus_factor(CommOperation operation, int num_ranks);

/// Memory where a communicator works.
class CommBuffer {
 public:
  CommBuffer(comm::Device device, size_t bytes);
  ~CommBuffer();
  CommBuffer(const CommBuffer&) = delete;
  CommBuffer& operator=(const CommBuffer&) = delete;

  void* data() { return gpu_ ? gpu_ : host_.data(); }
  void write(const std::vector<std::byte>& bytes);
  std::vector<std::byte> read();

 private:
  std::vector<std::byte> host_;
  void* gpu_ = nullptr;
  size_t bytes_;
};

/// All members of `comm` together, same arguments. `bytes`: of what a rank puts in or gets out, whichever is
/// more; parts of ranks are equal, and what does not divide is left out.
class CommContest {
 public:
  CommContest(comm::Communicator& comm, CommOperation operation, comm::DType dtype, int64_t bytes);

  int64_t count() const { return count_; }  // elements, of one rank's part where there are parts
  int64_t bytes() const;                    // in fact
  std::optional<comm::ReduceOp> op() const;
  int root() const { return operation_ == CommOperation::broadcast ? 0 : -1; }

  /// Once, as it is to be measured. On a GPU it is only enqueued.
  void run();
  /// Elements of this rank that are not what they must be, after one run on known data. Leaves zeros, which
  /// any number of runs leaves as they are.
  int64_t count_wrong();

 private:
  int64_t in_count() const;
  int64_t out_count() const;
  bool in_place() const;
  int in_value(int rank, int64_t i) const;
  int out_value(int64_t i) const;
  std::vector<std::byte> encode(int64_t count, const std::function<int(int64_t)>& value) const;

  comm::Communicator& comm_;
  CommOperation operation_;
  comm::DType dtype_;
  int64_t count_ = 0;
  std::optional<CommBuffer> in_, out_;
};

}  // namespace trireme::commands
