// The collectives over MPI messages, written as coroutines of the communication thread. Own algorithms,
// not MPI_Allreduce and its kin: reductions must add in rank order, calls must be compared between ranks,
// waiting must end on abort(), and no count may reach 2^31.
#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <vector>

#include "runtime/comm/collective_call.h"
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
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
};

// Buffers and counts stay valid until the task is done. `tag` differs between operations that may be under
// way at the same time, and is the same on all ranks.
namespace mpi {

Task barrier(const MpiGroup& group, int tag);
Task broadcast(const MpiGroup& group, int tag, CallHeader header, BufferView data);
Task all_reduce(const MpiGroup& group, int tag, CallHeader header, BufferView data);
Task all_gather_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in, BufferView out,
                  std::vector<int64_t> counts);
Task reduce_scatter(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in, BufferView out);
Task all_to_all_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in,
                  std::vector<int64_t> send_counts, BufferView out, std::vector<int64_t> recv_counts);

}  // namespace mpi
}  // namespace trireme::comm
