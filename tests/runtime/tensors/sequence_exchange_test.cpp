#include "runtime/comm/local_communicator.h"
#include "tests/runtime/tensors/exchange_cases.h"

namespace trireme::tensors {
namespace {

using comm::Communicator;
using comm::LocalWorld;
using Costs = std::vector<std::pair<int64_t, int64_t>>;

std::vector<int64_t> loads_of(const Costs& costs, int num_destinations) {
  const auto assigned = assign(costs, num_destinations);
  std::vector<int64_t> loads(num_destinations);
  for (size_t i = 0; i < costs.size(); ++i) loads.at(assigned[i]) += costs[i].second;
  return loads;
}

TEST(Assign, LargestFirstToTheLeastLoaded) {
  EXPECT_EQ(assign({{10, 5}, {11, 9}, {12, 4}, {13, 1}}, 2), (std::vector<int>{1, 0, 1, 0}));
}

TEST(Assign, IdsDecideBetweenEqualCosts) {
  EXPECT_EQ(assign({{3, 1}, {1, 1}, {2, 1}}, 3), (std::vector<int>{2, 0, 1}));
}

TEST(Assign, RecordsWithoutCostAreSpreadToo) {
  EXPECT_EQ(assign({{0, 0}, {1, 0}, {2, 0}, {3, 0}}, 2), (std::vector<int>{0, 1, 0, 1}));
}

TEST(Assign, HandlesNothingAndOneDestination) {
  EXPECT_TRUE(assign({}, 3).empty());
  EXPECT_EQ(assign({{0, 5}, {1, 6}}, 1), (std::vector<int>{0, 0}));
  EXPECT_THROW(assign({{0, 1}}, 0), Error);
}

TEST(Assign, NobodyBearsMoreThanTheMeanPlusTheLargest) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const int num_destinations = 1 + static_cast<int>(random() % 17);
    Costs costs;
    for (uint64_t i = random() % 200; i > 0; --i)
      costs.emplace_back(i, static_cast<int64_t>(random() % 8 == 0 ? random() % 100000 : random() % 50));
    int64_t total = 0, largest = 0;
    for (const auto& [id, cost] : costs) {
      total += cost;
      largest = std::max(largest, cost);
    }
    for (const int64_t load : loads_of(costs, num_destinations))
      EXPECT_LE(load * num_destinations, total + largest * num_destinations);
  }
}

TEST(Assign, DoesNotDependOnTheOrderOfItsInput) {
  std::mt19937_64 random(6);
  Costs costs;
  for (int64_t i = 0; i < 100; ++i) costs.emplace_back(i, static_cast<int64_t>(random() % 10));
  const auto by_id = [](const Costs& list) {
    const auto assigned = assign(list, 7);
    std::map<int64_t, int> result;
    for (size_t i = 0; i < list.size(); ++i) result[list[i].first] = assigned[i];
    return result;
  };
  const auto reference = by_id(costs);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(costs.begin(), costs.end(), random);
    EXPECT_EQ(by_id(costs), reference);
  }
}

TEST(SequenceExchange, EachRecordArrivesOnceWhereverItCameFrom) {
  for (const int num_ranks : {1, 2, 3, 5}) LocalWorld::run(num_ranks, expect_each_record_arrives_once);
}

TEST(SequenceExchange, TheSameAssignmentForAnyNumberOfSources) {
  const auto all = records(50, 77);
  for (const int num_ranks : {2, 3, 6})
    for (int num_sources = 1; num_sources <= num_ranks; ++num_sources)
      LocalWorld::run(num_ranks, [&](Communicator& world) {
        expect_same(exchange(world, share(all, world.rank(), num_sources, 9), {1, 0}),
                    expected(all, world.rank(), {1, 0}));
      });
}

TEST(SequenceExchange, ATwiceGivenIdIsAnErrorOnAllRanks) {
  LocalWorld::run(3, [](Communicator& world) {
    std::vector<Record> mine{{world.rank() == 2 ? 0 : world.rank(), 1, "x"}};
    EXPECT_THROW(exchange(world, mine, {0, 1, 2}), Error);
    world.barrier();  // nobody is out of step
  });
}

TEST(SequenceExchange, BadCostsAndDestinationsAreErrorsOnAllRanks) {
  LocalWorld::run(2, [](Communicator& world) {
    EXPECT_THROW(exchange(world, {{world.rank(), world.rank() == 1 ? -1 : 1, "x"}}, {0}), Error);
    EXPECT_THROW(exchange(world, {}, {}), Error);
    EXPECT_THROW(exchange(world, {}, {2}), Error);
    EXPECT_THROW(exchange(world, {}, {1, 1}), Error);
    world.barrier();
  });
}

}  // namespace
}  // namespace trireme::tensors
