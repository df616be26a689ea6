// The suite on MPI ranks: the number of processes is that of mpirun.
#pragma once

#include "runtime/comm/mpi_communicator.h"
#include "tests/runtime/comm/conformance_suite.h"

namespace trireme::comm::conformance {

inline Setting processes(const std::string& name, MpiLimits limits = {}) {
  return {name, [limits](const auto& body) {
            MpiThread thread;  // a new one each time: an abort ends it
            MpiCommunicator comm(thread, "world", all_ranks(thread), limits);
            try {
              body(comm);
              if (comm.abort_reason().empty()) comm.barrier();
            } catch (const std::exception& error) {
              comm.abort(error.what());
              throw;
            }
          }};
}

// Messages and openings so small that everything is split, also what 2^31 would split otherwise.
INSTANTIATE_TEST_SUITE_P(
    Mpi, CommunicatorTest,
    testing::Values(processes("Usual"),
                    processes("TinyMessages", {.opening_bytes = 300, .message_bytes = 1001}),
                    processes("NoOpeningPayload", {.opening_bytes = 0, .message_bytes = 64 << 10})),
    name_of);

}  // namespace trireme::comm::conformance
