#include "runtime/comm/mpi_communicator.h"
#include "tests/runtime/tensors/exchange_cases.h"

namespace trireme::tensors {
namespace {

TEST(SequenceExchangeOverMpi, EachRecordArrivesOnceWhereverItCameFrom) {
  comm::MpiThread thread;
  comm::MpiCommunicator world(thread, "world", comm::all_ranks(thread));
  expect_each_record_arrives_once(world);
}

}  // namespace
}  // namespace trireme::tensors
