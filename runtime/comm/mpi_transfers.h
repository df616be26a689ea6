// Bytes of any number between ranks, in MPI messages of limited size. Communication thread only.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/comm/mpi_task.h"
#include "runtime/comm/mpi_thread.h"

namespace trireme::comm {

struct MpiLimits {
  /// Calls whose data from all ranks together fit in this many bytes need one round of messages.
  int64_t opening_bytes = 64 << 10;
  /// Larger data travel in messages of at most this many bytes.
  int64_t message_bytes = 256 << 10;
};

struct MpiGroup {
  MpiThread& thread;
  std::string name;
  MpiLimits limits;
  MPI_Comm comm = MPI_COMM_NULL;      // collectives
  MPI_Comm messages = MPI_COMM_NULL;  // send_recv
  int rank = 0, size = 1;
};

namespace mpi {

constexpr int kAhead = 2;  // messages under way beyond the one that is waited for

/// Bytes that go to or come from one rank. Two between the same ranks that may be under way at the same time
/// differ in their tags.
struct Transfer {
  int peer;
  int tag;
  std::byte* data;
  int64_t bytes;
};

/// How a receiver knows that a transfer has ended.
enum class Ending : uint8_t {
  agreed,  // both sides know the size; nothing travels for zero bytes
  marked,  // by a message below the limit, if need be an empty one: another size than expected is an error
};

/// All sends and receives side by side, each in order. Their memory stays valid until the task is done.
Task move(const MpiGroup& group, MPI_Comm comm, Ending ending, std::vector<Transfer> sends,
          std::vector<Transfer> receives);

}  // namespace mpi
}  // namespace trireme::comm
