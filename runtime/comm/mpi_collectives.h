// The collectives and send_recv over MPI messages, written as coroutines of the communication thread. Own
// algorithms, not MPI_Allreduce and its kin: reductions must add in rank order, calls must be compared
// between ranks, waiting must end on abort(), and no count may reach 2^31.
#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <vector>

#include "runtime/comm/collective_call.h"
#include "runtime/comm/mpi_task.h"
#include "runtime/comm/mpi_transfers.h"

namespace trireme::comm {

// Buffers and counts stay valid until the task is done. `tag` differs between operations that may be under
// way at the same time, and is the same on all ranks.
namespace mpi {

Task barrier(const MpiGroup& group, int tag);
Task broadcast(const MpiGroup& group, int tag, CallHeader header, BufferView data);
Task all_reduce(const MpiGroup& group, int tag, CallHeader header, BufferView data);
Task all_gather_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in, BufferView out,
                  std::vector<int64_t> counts);
/// Rank r's part has counts[r] elements.
Task reduce_scatter_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in, BufferView out,
                      std::vector<int64_t> counts);
Task all_to_all_v(const MpiGroup& group, int tag, CallHeader header, ConstBufferView in,
                  std::vector<int64_t> send_counts, BufferView out, std::vector<int64_t> recv_counts);
Task send_recv(const MpiGroup& group, std::vector<OwnMessage> own, std::vector<Transfer> sends,
               std::vector<Transfer> receives);

}  // namespace mpi
}  // namespace trireme::comm
