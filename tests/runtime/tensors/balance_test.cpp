#include "runtime/tensors/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "runtime/base/error.h"

namespace trireme::tensors {
namespace {

using Costs = std::vector<std::pair<int64_t, int64_t>>;

std::vector<int64_t> loads_of(const Costs& costs, int num_parts) {
  const auto assigned = assign(costs, num_parts);
  EXPECT_EQ(assigned.size(), costs.size());
  std::vector<int64_t> loads(num_parts);
  for (size_t i = 0; i < costs.size(); ++i) loads.at(assigned[i]) += costs[i].second;
  return loads;
}

int64_t most(const std::vector<int64_t>& loads) {
  return *std::ranges::max_element(loads);
}

// The least that the largest part can be, by trying all ways.
int64_t best(const Costs& costs, int num_parts) {
  std::vector<int64_t> loads(num_parts);
  int64_t found = INT64_MAX;
  const std::function<void(size_t)> place = [&](size_t i) {
    if (i == costs.size()) {
      found = std::min(found, most(loads));
      return;
    }
    for (int64_t& load : loads) {
      load += costs[i].second;
      if (load < found) place(i + 1);
      load -= costs[i].second;
    }
  };
  place(0);
  return found;
}

// Largest first to the least loaded.
int64_t greedy(const Costs& costs, int num_parts) {
  std::vector<int64_t> all, loads(num_parts);
  for (const auto& [id, cost] : costs) all.push_back(cost);
  std::ranges::sort(all, std::greater{});
  for (const int64_t cost : all) *std::ranges::min_element(loads) += cost;
  return most(loads);
}

Costs random_costs(std::mt19937_64& random, uint64_t count, uint64_t largest) {
  Costs costs;
  for (uint64_t i = 0; i < count; ++i)
    costs.emplace_back(static_cast<int64_t>(i), static_cast<int64_t>(random() % largest));
  return costs;
}

TEST(Assign, DifferencesCancel) {
  EXPECT_EQ(assign({{10, 5}, {11, 9}, {12, 4}, {13, 1}}, 2), (std::vector<int>{1, 0, 1, 0}));
  // Largest first gives 17 and 13; differences 8-7, 6-5 and 4 end in 16 and 14, the best is 15 and 15.
  EXPECT_EQ(most(loads_of({{0, 8}, {1, 7}, {2, 6}, {3, 5}, {4, 4}}, 2)), 16);
  EXPECT_EQ(greedy({{0, 8}, {1, 7}, {2, 6}, {3, 5}, {4, 4}}, 2), 17);
}

TEST(Assign, IdsDecideBetweenEqualCosts) {
  EXPECT_EQ(assign({{3, 1}, {1, 1}, {2, 1}}, 3), (std::vector<int>{2, 0, 1}));
}

TEST(Assign, RecordsOfEqualCostOrNoneAreSpreadEvenly) {
  for (const int64_t cost : {0, 1, 900})
    for (const int num_parts : {1, 2, 3, 5, 8})
      for (int count = 0; count <= 40; ++count) {
        Costs costs;
        for (int i = 0; i < count; ++i) costs.emplace_back(i, cost);
        std::vector<int> counts(num_parts);
        for (const int part : assign(costs, num_parts)) ++counts.at(part);
        EXPECT_LE(*std::ranges::max_element(counts) - *std::ranges::min_element(counts), 1)
            << count << " in " << num_parts;
      }
}

TEST(Assign, HandlesNothingAndOnePart) {
  EXPECT_TRUE(assign({}, 3).empty());
  EXPECT_EQ(assign({{0, 5}, {1, 6}}, 1), (std::vector<int>{0, 0}));
  EXPECT_THROW(assign({{0, 1}}, 0), Error);
}

TEST(Assign, PartsDifferByTheLargestCostAtMost) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const int num_parts = 1 + static_cast<int>(random() % 17);
    Costs costs;
    for (uint64_t i = random() % 200; i > 0; --i)
      costs.emplace_back(i, static_cast<int64_t>(random() % 8 == 0 ? random() % 100000 : random() % 50));
    int64_t total = 0, largest = 0;
    for (const auto& [id, cost] : costs) {
      total += cost;
      largest = std::max(largest, cost);
    }
    const auto loads = loads_of(costs, num_parts);
    EXPECT_LE(most(loads) - *std::ranges::min_element(loads), largest);
    EXPECT_EQ(std::accumulate(loads.begin(), loads.end(), int64_t{0}), total);
  }
}

// The method's bound against the best of all ways: 7/6 for two parts, 4/3 - 1/(3 parts) for more.
TEST(Assign, IsWithinTheMethodsBoundOfTheBest) {
  std::mt19937_64 random(7);
  int perfect = 0;
  for (int round = 0; round < 600; ++round) {
    const int num_parts = 2 + static_cast<int>(random() % 3);
    const Costs costs = random_costs(random, 1 + random() % 9, round % 2 == 0 ? 12 : 1000);
    const int64_t got = most(loads_of(costs, num_parts)), least = best(costs, num_parts);
    EXPECT_GE(got, least);
    if (num_parts == 2) {
      EXPECT_LE(6 * got, 7 * least);
    } else {
      EXPECT_LE(3 * num_parts * got, (4 * num_parts - 1) * least);
    }
    perfect += got == least;
  }
  EXPECT_GT(perfect, 300);
}

TEST(Assign, IsMuchCloserToEvenThanLargestFirst) {
  std::mt19937_64 random(8);
  int64_t excess = 0, greedy_excess = 0;
  for (int round = 0; round < 200; ++round) {
    const int num_parts = 2 + static_cast<int>(random() % 7);
    const Costs costs = random_costs(random, 64, 100'000);
    int64_t total = 0;
    for (const auto& [id, cost] : costs) total += cost;
    excess += most(loads_of(costs, num_parts)) - total / num_parts;
    greedy_excess += greedy(costs, num_parts) - total / num_parts;
  }
  EXPECT_LT(3 * excess, greedy_excess);
}

TEST(Assign, DoesNotDependOnTheOrderOfItsInput) {
  std::mt19937_64 random(6);
  Costs costs = random_costs(random, 100, 10);
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

}  // namespace
}  // namespace trireme::tensors
