#include "runtime/comm/mpi_transfers.h"

#include <algorithm>
#include <array>

namespace trireme::comm::mpi {

Task move(const MpiGroup& group, MPI_Comm comm, Ending ending, std::vector<Transfer> sends,
          std::vector<Transfer> receives) {
  const int64_t limit = group.limits.message_bytes;
  const auto pieces_of = [&](int64_t bytes) {
    return ending == Ending::marked ? bytes / limit + 1 : (bytes + limit - 1) / limit;
  };
  int64_t pieces = 0;
  for (const auto* list : {&sends, &receives})
    for (const Transfer& t : *list) pieces = std::max(pieces, pieces_of(t.bytes));
  std::array<MpiRequests, kAhead + 1> window;
  for (int64_t i = 0; i < pieces + kAhead; ++i) {
    if (i < pieces) {
      MpiRequests& requests = window[i % window.size()];
      const int64_t begin = i * limit;
      const auto size_here = [&](const Transfer& t) {
        return static_cast<size_t>(std::min(limit, t.bytes - begin));
      };
      for (const Transfer& t : receives)
        if (i < pieces_of(t.bytes)) requests.receive(t.data + begin, size_here(t), t.peer, t.tag, comm);
      for (const Transfer& t : sends)
        if (i < pieces_of(t.bytes)) requests.send(t.data + begin, size_here(t), t.peer, t.tag, comm);
    }
    if (i >= kAhead) {
      MpiRequests& oldest = window[(i - kAhead) % window.size()];
      co_await group.thread.finished(oldest);
    }
  }
}

}  // namespace trireme::comm::mpi
