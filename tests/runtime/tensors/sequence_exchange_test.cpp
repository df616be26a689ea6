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

// Twelve records in rounds of four, two of which hold most of their round's cost: shared out together or
// round by round, each lands on the same replica, and every round is as even as it can be.
TEST(SequenceExchange, EachRoundIsEvenByItself) {
  LocalWorld::run(3, [](Communicator& world) {
    std::vector<Record> all;
    for (int64_t id = 0; id < 12; ++id)
      all.push_back({id, id % 4 < 2 ? 100 + id : 1, std::to_string(id), id / 4});
    const std::vector<std::vector<int>> replicas{{0}, {2}};
    const auto of = [&](int64_t first, int64_t last) {
      std::vector<Record> mine;
      for (int64_t id = first; id < last; ++id)
        if (id % world.size() == world.rank()) mine.push_back(all[static_cast<size_t>(id)]);
      return exchange(world, std::move(mine), replicas);
    };
    std::vector<int64_t> together, one_by_one;
    for (const Record& record : of(0, 12)) together.push_back(record.id);
    for (int64_t first = 0; first < 12; first += 4) {
      const auto round = of(first, first + 4);
      EXPECT_EQ(round.size(), world.rank() == 1 ? 0u : 2u);
      int64_t large = 0;
      for (const Record& record : round) {
        one_by_one.push_back(record.id);
        large += record.cost >= 100 ? 1 : 0;
      }
      EXPECT_EQ(large, world.rank() == 1 ? 0 : 1);
    }
    EXPECT_EQ(together, one_by_one);
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
