#include "runtime/comm/local_communicator.h"
#include "tests/runtime/tensors/exchange_cases.h"

namespace trireme::tensors {
namespace {

using comm::Communicator;
using comm::LocalWorld;

TEST(SequenceExchange, EachRecordArrivesOnceWhereverItCameFrom) {
  for (const int num_ranks : {1, 2, 3, 5}) LocalWorld::run(num_ranks, expect_each_record_arrives_once);
}

TEST(SequenceExchange, TheSameAssignmentForAnyNumberOfSources) {
  const auto all = records(50, 77);
  for (const int num_ranks : {2, 3, 6})
    for (int num_sources = 1; num_sources <= num_ranks; ++num_sources)
      LocalWorld::run(num_ranks, [&](Communicator& world) {
        expect_same(exchange(world, share(all, world.rank(), num_sources, 9), {{1}, {0}}),
                    expected(all, world.rank(), {{1}, {0}}));
      });
}

TEST(SequenceExchange, ATwiceGivenIdIsAnErrorOnAllRanks) {
  LocalWorld::run(3, [](Communicator& world) {
    std::vector<Record> mine{{world.rank() == 2 ? 0 : world.rank(), 1, "x"}};
    EXPECT_THROW(exchange(world, mine, {{0}, {1}, {2}}), Error);
    world.barrier();  // nobody is out of step
  });
}

TEST(SequenceExchange, BadCostsAndDestinationsAreErrorsOnAllRanks) {
  LocalWorld::run(2, [](Communicator& world) {
    EXPECT_THROW(exchange(world, {{world.rank(), world.rank() == 1 ? -1 : 1, "x"}}, {{0}}), Error);
    EXPECT_THROW(exchange(world, {}, {}), Error);
    EXPECT_THROW(exchange(world, {}, {{2}}), Error);
    EXPECT_THROW(exchange(world, {}, {{1}, {1}}), Error);
    EXPECT_THROW(exchange(world, {}, {{0, 1, 0}}), Error);
    EXPECT_THROW(exchange(world, {}, {{0}, {}}), Error);
    world.barrier();
  });
}

// All ranks of a replica work on the same records; no rank has those of two replicas.
TEST(SequenceExchange, ReplicasShareTheirRecords) {
  const auto all = records(40, 5);
  LocalWorld::run(5, [&](Communicator& world) {
    const auto got = exchange(world, share(all, world.rank(), 5, 3), {{4, 1}, {0, 2}});
    std::string ids;
    for (const Record& r : got) ids += std::to_string(r.id) + " ";
    const auto everybodys = world.all_gather_strings(ids);
    EXPECT_EQ(everybodys[4], everybodys[1]);
    EXPECT_EQ(everybodys[0], everybodys[2]);
    EXPECT_NE(everybodys[0], everybodys[1]);
    EXPECT_EQ(everybodys[3], "");
    EXPECT_LT(got.size(), all.size());
  });
}

TEST(SequenceExchange, RecordsAreWrittenWhereTheyLeaveAndReadWhereTheyArrive) {
  comm::LocalWorld::run(3, [](comm::Communicator& world) {
    // Large ones too, whose memory is of another kind. Rank 2 sends nothing; ranks 1 and 2 are one replica.
    std::vector<Outgoing> records;
    int written = 0;
    for (int64_t id = world.rank(); id < 6 && world.rank() < 2; id += 2)
      records.push_back({id, 1, 1'500'000 + id, [id, &written](char* to) {
                           std::fill_n(to, 1'500'000 + id, static_cast<char>('a' + id));
                           ++written;
                         }});
    Arrivals arrivals = exchange_in_place(world, std::move(records), {{0}, {1, 2}});
    EXPECT_EQ(arrivals.records.size(), 3u);  // equal costs: each replica has half
    const Arrivals kept = std::move(arrivals);
    for (size_t i = 0; i < kept.records.size(); ++i) {
      const auto& [id, cost, bytes] = kept.records[i];
      EXPECT_EQ(bytes, std::string(static_cast<size_t>(1'500'000 + id), static_cast<char>('a' + id)));
      if (i > 0) {
        EXPECT_GT(id, kept.records[i - 1].id);
      }
    }
    const double all = world.all_reduce_scalar(written);
    EXPECT_EQ(all, 3 * 1 + 3 * 2);  // once for each rank that it went to
  });
}

}  // namespace
}  // namespace trireme::tensors
