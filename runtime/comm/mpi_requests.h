// Messages under way. Communication thread only.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::comm {

/// Throws mpi, naming the call, unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// Calls an MPI function by its name, and throws its error.
#define TRIREME_MPI(function, ...) ::trireme::comm::check_mpi(function(__VA_ARGS__), #function)

/// A set of sends and receives that is waited for as a whole. Counts are bytes, below 2^31 each.
class MpiRequests {
 public:
  void send(const void* data, size_t bytes, int to, int tag, MPI_Comm comm);
  /// A message of another size than `bytes` is an error (internal: the ranks' calls don't match).
  void receive(void* data, size_t bytes, int from, int tag, MPI_Comm comm);
  /// Of any size up to `capacity`; see received_bytes().
  void receive_up_to(void* data, size_t capacity, int from, int tag, MPI_Comm comm);

  /// True when all are complete or one has failed.
  bool test() noexcept;
  /// After test(): throws what failed, forgets the requests.
  void finish();
  /// After finish() of one single receive: its bytes.
  size_t received_bytes() const { return received_bytes_; }
  /// Takes back what can be taken back. The buffers of what can't stay in use.
  void cancel() noexcept;

 private:
  static constexpr size_t kAnySize = ~size_t{0};
  void check_sizes();

  std::vector<MPI_Request> requests_;
  std::vector<size_t> expected_bytes_;  // per request; kAnySize for sends and receive_up_to
  std::vector<MPI_Status> statuses_;
  size_t received_bytes_ = 0;
  int code_ = MPI_SUCCESS;
};

}  // namespace trireme::comm
