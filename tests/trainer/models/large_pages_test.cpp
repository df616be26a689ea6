#include "trainer/models/large_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

namespace trireme::models {
namespace {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

struct Block {
  LargePageMemory memory;
  int64_t bytes;
  unsigned char mark;

  Block(int64_t size, unsigned char value) : memory(on_large_pages(size)), bytes(size), mark(value) {
    std::memset(memory.get(), mark, static_cast<size_t>(bytes));
  }
  bool is_whole() const {
    return std::all_of(memory.get(), memory.get() + bytes,
                       [&](std::byte b) { return b == static_cast<std::byte>(mark); });
  }
};

// Of all sizes, taken and given back in any order: no two share a byte, and none loses one as others go.
TEST(LargePages, BlocksKeepTheirBytesWhateverComesAndGoes) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    std::mt19937 random(seed);
    std::vector<Block> blocks;
    for (int step = 0; step < 400; ++step) {
      if (blocks.size() < 3 || random() % 5 < 3) {
        const int64_t most = random() % 10 == 0 ? int64_t{9} << 20 : 40'000;
        blocks.emplace_back(static_cast<int64_t>(random()) % most, static_cast<unsigned char>(random()));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().memory.get()) % 64, 0u);
      } else {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        EXPECT_TRUE(blocks.back().is_whole());
        blocks.pop_back();
      }
    }
    for (const Block& block : blocks) EXPECT_TRUE(block.is_whole());
  }
}

TEST(LargePages, WhatIsGivenBackLeavesTheProcess) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer keeps what is given back";
#endif
  const int64_t before = resident_bytes();
  std::vector<Block> blocks;
  for (int i = 0; i < 60; ++i) blocks.emplace_back(3'000'000 + 1000 * i, static_cast<unsigned char>(i));
  blocks.emplace_back(100'000'000, static_cast<unsigned char>(7));
  const int64_t most = resident_bytes() - before;
  EXPECT_GT(most, 275'000'000);
  EXPECT_LT(most, 295'000'000);
  // Every sixth stays, and keeps no more than the pages that it lies on.
  std::vector<Block> stay;
  for (size_t i = 0; i < 60; i += 6) stay.push_back(std::move(blocks[i]));
  blocks.clear();
  EXPECT_LT(resident_bytes() - before, 10 * 8'000'000);
  for (const Block& block : stay) EXPECT_TRUE(block.is_whole());
  stay.clear();
  EXPECT_LT(resident_bytes() - before, 3'000'000);
}

TEST(LargePages, ThreadsTakeAndGiveBackAtOnce) {
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread)
    threads.emplace_back([thread] {
      std::mt19937 random(thread);
      std::vector<Block> mine;
      for (int i = 0; i < 200; ++i) {
        mine.emplace_back(static_cast<int64_t>(random() % 300'000), static_cast<unsigned char>(thread));
        if (mine.size() > 8) mine.erase(mine.begin() + static_cast<int64_t>(random() % mine.size()));
      }
      for (const Block& block : mine) EXPECT_TRUE(block.is_whole());
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace trireme::models
