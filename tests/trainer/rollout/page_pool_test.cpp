#include "trainer/rollout/page_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "runtime/base/error.h"

namespace trireme::rollout {
namespace {

TEST(PagePool, TakesTheLowestFreePage) {
  PagePool pool(130);
  for (int page = 0; page < 130; ++page) EXPECT_EQ(pool.take(), page);
  EXPECT_FALSE(pool.can_take(1));
  pool.give_back(128);
  pool.give_back(3);
  pool.give_back(64);
  EXPECT_EQ(pool.take(), 3);
  EXPECT_EQ(pool.take(), 64);
  EXPECT_EQ(pool.take(), 128);
}

TEST(PagePool, RefusesWhatWouldCorruptTheCache) {
  PagePool pool(2);
  EXPECT_FALSE(pool.can_share(0));
  EXPECT_THROW(pool.share(0), Error);
  EXPECT_THROW(pool.give_back(0), Error);
  pool.take();
  pool.take();
  EXPECT_THROW(pool.take(), Error);
  pool.give_back(1);
  EXPECT_THROW(pool.give_back(1), Error);
}

TEST(PagePool, AgreesWithAMapOfCountsOverRandomOperations) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const int num_pages = 1 + static_cast<int>(random() % 200);
    PagePool pool(num_pages);
    std::map<int32_t, int> model;  // page -> references, of those in use
    for (int i = 0; i < 5000; ++i) {
      const uint32_t operation = random() % 5;
      if (operation < 2 && pool.can_take(1)) {
        int32_t lowest = 0;
        while (model.count(lowest)) ++lowest;
        ASSERT_EQ(pool.take(), lowest);
        model[lowest] = 1;
      } else if (!model.empty()) {
        const int32_t page = std::next(model.begin(), random() % model.size())->first;
        if (operation == 2) {
          pool.share(page);
          ++model[page];
        } else {
          pool.give_back(page);
          if (--model[page] == 0) model.erase(page);
        }
      }
      ASSERT_EQ(pool.num_free(), num_pages - static_cast<int64_t>(model.size()));
      ASSERT_EQ(pool.can_take(num_pages), model.empty());
    }
    for (int32_t page = 0; page < num_pages; ++page) {
      ASSERT_EQ(pool.references(page), model.count(page) ? model[page] : 0);
    }
    while (!model.empty()) {
      const auto [page, references] = *model.begin();
      for (int i = 0; i < references; ++i) pool.give_back(page);
      model.erase(page);
    }
    ASSERT_EQ(pool.num_free(), num_pages);
  }
}

}  // namespace
}  // namespace trireme::rollout
