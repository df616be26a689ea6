// The exchange, with its sources spread over any ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>

#include "runtime/base/error.h"
#include "runtime/tensors/balance.h"
#include "runtime/tensors/sequence_exchange.h"

namespace trireme::tensors {

// A record's bytes tell its id, so that a mix-up shows; some are empty, some large.
inline Record record(int64_t id, std::mt19937_64& random) {
  const size_t length = random() % 5 == 0 ? 0 : random() % 20 == 0 ? 200'000 : random() % 700;
  std::string bytes(length, '\0');
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(id * 31 + static_cast<int64_t>(i));
  return {id, static_cast<int64_t>(random() % 4 == 0 ? 0 : random() % 1000), bytes};
}

inline std::vector<Record> records(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Record> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(record(i * 7 - 20, random));  // ids with gaps, some negative
  return all;
}

// This rank's share of all records: spread by a seed over `num_sources` ranks, in shuffled order.
inline std::vector<Record> share(const std::vector<Record>& all, int rank, int num_sources, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Record> mine;
  for (const Record& r : all)
    if (static_cast<int>(random() % static_cast<uint64_t>(num_sources)) == rank) mine.push_back(r);
  std::shuffle(mine.begin(), mine.end(), random);
  return mine;
}

using Replicas = std::vector<std::vector<int>>;

// What each rank must receive, from assign() alone.
inline std::vector<Record> expected(const std::vector<Record>& all, int rank, const Replicas& replicas) {
  std::vector<std::pair<int64_t, int64_t>> id_and_cost;
  for (const Record& r : all) id_and_cost.emplace_back(r.id, r.cost);
  const auto assigned = assign(id_and_cost, static_cast<int>(replicas.size()));
  std::vector<Record> mine;
  for (size_t i = 0; i < all.size(); ++i)
    if (std::ranges::count(replicas[assigned[i]], rank) > 0) mine.push_back(all[i]);
  return mine;
}

// Some of the ranks, in any order, dealt out to replicas that need not be of one size.
inline Replicas random_replicas(int num_ranks, std::mt19937_64& random) {
  std::vector<int> ranks(num_ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  ranks.resize(1 + random() % ranks.size());
  Replicas replicas{{ranks[0]}};
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (random() % 2 == 0) replicas.emplace_back();
    replicas.back().push_back(ranks[i]);
  }
  return replicas;
}

inline void expect_same(const std::vector<Record>& a, const std::vector<Record>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].id, b[i].id);
    EXPECT_EQ(a[i].cost, b[i].cost);
    EXPECT_TRUE(a[i].bytes == b[i].bytes) << "record " << a[i].id;
  }
}

// Any number of sources, any replicas, any order of arrival: the same records at each place.
inline void expect_each_record_arrives_once(comm::Communicator& world) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto all = records(static_cast<int64_t>(random() % 60), seed);
    const Replicas replicas = random_replicas(world.size(), random);
    const int num_sources = 1 + static_cast<int>(random() % static_cast<uint64_t>(world.size()));
    const auto got = exchange(world, share(all, world.rank(), num_sources, seed + 1000), replicas);
    expect_same(got, expected(all, world.rank(), replicas));
  }
}

}  // namespace trireme::tensors
