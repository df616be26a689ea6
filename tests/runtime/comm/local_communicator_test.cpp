#include "runtime/comm/local_communicator.h"

#include "tests/runtime/comm/conformance_suite.h"

namespace trireme::comm::conformance {
namespace {

Setting threads(int num_ranks) {
  return {std::to_string(num_ranks) + "Threads",
          [num_ranks](const auto& body) { LocalWorld::run(num_ranks, body); }};
}

INSTANTIATE_TEST_SUITE_P(Local, CommunicatorTest,
                         testing::Values(threads(1), threads(2), threads(3), threads(4), threads(7)),
                         name_of);

TEST(LocalWorld, ThrowsTheErrorAndNotItsConsequences) {
  try {
    LocalWorld::run(3, [](Communicator& comm) {
      if (comm.rank() == 2) fail(ErrorCode::io, "no such file");
      comm.barrier();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
}

TEST(LocalWorld, RefusesToBeEmpty) {
  EXPECT_THROW(LocalWorld(0), Error);
}

}  // namespace
}  // namespace trireme::comm::conformance
