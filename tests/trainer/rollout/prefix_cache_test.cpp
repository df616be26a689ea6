#include "trainer/rollout/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "runtime/base/error.h"

namespace trireme::rollout {
namespace {

using Tokens = std::vector<int32_t>;

/// Writes `tokens` behind `path` as a sequence does, page by page; the whole path.
std::vector<PageRun> write(PrefixCache& cache, int32_t page_size, std::vector<PageRun> path,
                           const Tokens& tokens) {
  int32_t room = 0;
  for (const int32_t token : tokens) {
    if (room == 0) {
      path.push_back({cache.take(path.empty() ? PageRun{} : path.back()), 0});
      room = page_size;
    }
    cache.append(path.back().page, token);
    ++path.back().length;
    --room;
  }
  return path;
}

void give_back(PrefixCache& cache, std::vector<PageRun> path, bool keep = true) {
  for (; !path.empty(); path.pop_back()) cache.give_back(path.back().page, keep);
}

std::string text_of(const std::vector<PageRun>& path) {
  std::string text;
  for (const PageRun& run : path) text += std::to_string(run.page) + ":" + std::to_string(run.length) + " ";
  return text;
}

TEST(PrefixCache, FindsTheLongestBeginningUpToAnyToken) {
  PrefixCache cache(10, 4);
  EXPECT_EQ(text_of(cache.find(Tokens{1, 2})), "");
  const auto first = write(cache, 4, {}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(text_of(first), "0:4 1:4 2:1 ");
  EXPECT_EQ(text_of(cache.find(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})), "0:4 1:4 2:1 ");
  EXPECT_EQ(text_of(cache.find(Tokens{1, 2, 3, 4, 5, 6, 0})), "0:4 1:2 ");
  EXPECT_EQ(text_of(cache.find(Tokens{1, 2, 3})), "0:3 ");
  EXPECT_EQ(text_of(cache.find(Tokens{2, 3})), "");
  EXPECT_EQ(text_of(cache.find(Tokens{})), "");

  // A branch within a page, on a page of its own.
  const auto path = cache.find(Tokens{1, 2, 3, 4, 5, 6, 0});
  for (const PageRun& run : path) cache.share(run.page);
  const auto second = write(cache, 4, path, {0, 0, 0});
  EXPECT_EQ(text_of(second), "0:4 1:2 3:3 ");
  EXPECT_EQ(text_of(cache.find(Tokens{1, 2, 3, 4, 5, 6, 0, 0, 1})), "0:4 1:2 3:2 ");
  EXPECT_EQ(text_of(cache.find(Tokens{1, 2, 3, 4, 5, 6, 7, 8})), "0:4 1:4 ");
}

TEST(PrefixCache, TellsEqualTokensAfterDifferentHistoriesApart) {
  PrefixCache cache(10, 2);
  write(cache, 2, {}, {1, 1, 7, 7});
  write(cache, 2, {}, {2, 2, 7, 7});
  EXPECT_EQ(text_of(cache.find(Tokens{1, 1, 7, 7})), "0:2 1:2 ");
  EXPECT_EQ(text_of(cache.find(Tokens{2, 2, 7, 7})), "2:2 3:2 ");
  EXPECT_EQ(text_of(cache.find(Tokens{7, 7})), "");
}

TEST(PrefixCache, IdlePagesGoFromTheEndOfThePathReadLongestAgo) {
  PrefixCache cache(5, 2);
  const auto a = write(cache, 2, {}, {1, 1, 1, 1}), b = write(cache, 2, {}, {2, 2, 2, 2});
  give_back(cache, a);
  give_back(cache, b);
  EXPECT_EQ(cache.num_available(), 5);
  EXPECT_EQ(cache.num_idle(), 4);
  for (const PageRun& run : a) cache.share(run.page);  // read again: b is now the older
  give_back(cache, a);

  const auto c = write(cache, 2, {}, {3, 3, 3, 3});  // the free page, then one of b
  EXPECT_EQ(text_of(c), "4:2 3:2 ");
  EXPECT_EQ(text_of(cache.find(Tokens{2, 2, 2, 2})), "2:2 ");
  EXPECT_EQ(text_of(cache.find(Tokens{1, 1, 1, 1})), "0:2 1:2 ");
  const auto d = write(cache, 2, {}, {4, 4, 4, 4});
  EXPECT_EQ(text_of(d), "2:2 1:2 ");
  EXPECT_EQ(text_of(cache.find(Tokens{1, 1, 1, 1})), "0:2 ");
  EXPECT_EQ(cache.num_available(), 1);
  EXPECT_EQ(cache.peak_used(), 4);
}

TEST(PrefixCache, WhatIsNotKeptIsFreeUnlessPagesContinueIt) {
  PrefixCache cache(4, 2);
  const auto a = write(cache, 2, {}, {1, 1, 1});
  for (const PageRun& run : a) cache.share(run.page);
  const auto b = write(cache, 2, a, {5, 5});
  give_back(cache, a, false);
  give_back(cache, b, false);
  EXPECT_EQ(cache.num_idle(), 0);
  EXPECT_EQ(cache.num_available(), 4);

  const auto c = write(cache, 2, {}, {1, 1, 1});
  for (const PageRun& run : c) cache.share(run.page);
  const auto d = write(cache, 2, c, {5, 5});
  give_back(cache, d, true);
  give_back(cache, c, false);
  EXPECT_EQ(cache.num_idle(), 3);
  EXPECT_EQ(text_of(cache.find(Tokens{1, 1, 1, 5, 5})), text_of(d));
  cache.forget_idle();
  EXPECT_EQ(cache.num_idle(), 0);
  EXPECT_EQ(text_of(cache.find(Tokens{1, 1, 1, 5, 5})), "");
}

TEST(PrefixCache, RefusesWhatWouldCorruptThePages) {
  PrefixCache cache(1, 2);
  EXPECT_THROW(cache.share(0), Error);
  EXPECT_THROW(cache.give_back(0, true), Error);
  const auto a = write(cache, 2, {}, {1, 1});
  EXPECT_THROW(cache.append(0, 1), Error);
  EXPECT_THROW(cache.take({}), Error);
  give_back(cache, a);
  EXPECT_THROW(cache.give_back(0, true), Error);
  EXPECT_THROW(cache.give_back(0, false), Error);
}

/// Sequences that come, grow and go at random, over few tokens so that they meet; beside them what every page
/// must hold: for each (page, length) the whole history that ends there.
class RandomSequences {
 public:
  explicit RandomSequences(uint32_t seed)
      : random_(seed),
        page_size_(1 + static_cast<int32_t>(random_() % 5)),
        cache_(1 + random_() % 40, page_size_) {}

  void step() {
    switch (random_() % 4) {
      case 0:
        return begin();
      case 1:
        if (!live_.empty()) end(random_() % live_.size());
        return;
      default:
        if (!live_.empty()) grow(live_[random_() % live_.size()]);
    }
  }

  void expect_whole() {
    std::map<int32_t, int> readers;
    for (const Sequence& s : live_) {
      Tokens history;
      for (const PageRun& run : s.path) {
        ++readers[run.page];
        ASSERT_FALSE(cache_.is_idle(run.page));
        ASSERT_LE(run.length, static_cast<int32_t>(content_.at(run.page).tokens.size()));
        ASSERT_EQ(content_.at(run.page).before, history) << "page " << run.page << " has another history";
        const Tokens& tokens = content_.at(run.page).tokens;
        history.insert(history.end(), tokens.begin(), tokens.begin() + run.length);
      }
      ASSERT_EQ(history, s.tokens);
      // What is being read can always be found, if perhaps on other pages and up to a shorter branch.
      ASSERT_FALSE(!s.tokens.empty() && cache_.find(s.tokens).empty());
    }
    ASSERT_EQ(cache_.num_used(), static_cast<int64_t>(readers.size()));
    ASSERT_LE(cache_.num_used(), cache_.peak_used());
  }

  void end_all() {
    while (!live_.empty()) end(0);
    ASSERT_EQ(cache_.num_available(), cache_.num_pages());
    cache_.forget_idle();
    ASSERT_EQ(cache_.num_idle(), 0);
    std::vector<PageRun> all;
    for (int64_t i = 0; i < cache_.num_pages(); ++i) all.push_back({cache_.take({}), 0});
    give_back(cache_, all);
  }

  int64_t num_found = 0, num_begun = 0;

 private:
  struct Sequence {
    Tokens tokens;
    std::vector<PageRun> path;
    int32_t room = 0;
  };
  struct Content {
    Tokens before, tokens;
  };

  void begin() {
    Tokens wanted(random_() % 20);
    for (int32_t& token : wanted) token = static_cast<int32_t>(random_() % 2);
    Sequence s;
    s.path = cache_.find(wanted);
    for (const PageRun& run : s.path) {
      cache_.share(run.page);
      const Tokens& tokens = content_.at(run.page).tokens;
      ASSERT_EQ(content_.at(run.page).before, s.tokens);
      s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.begin() + run.length);
    }
    ASSERT_TRUE(std::equal(s.tokens.begin(), s.tokens.end(), wanted.begin()));
    num_found += static_cast<int64_t>(s.tokens.size());
    ++num_begun;
    live_.push_back(std::move(s));
  }

  void grow(Sequence& s) {
    if (s.room == 0) {
      if (cache_.num_available() == 0) return;
      const int32_t page = cache_.take(s.path.empty() ? PageRun{} : s.path.back());
      content_[page] = {s.tokens, {}};
      s.path.push_back({page, 0});
      s.room = page_size_;
    }
    const auto token = static_cast<int32_t>(random_() % 2);
    cache_.append(s.path.back().page, token);
    content_.at(s.path.back().page).tokens.push_back(token);
    s.tokens.push_back(token);
    ++s.path.back().length;
    --s.room;
  }

  void end(size_t i) {
    give_back(cache_, live_[i].path, random_() % 2 == 0);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::mt19937 random_;
  const int32_t page_size_;
  PrefixCache cache_;
  std::vector<Sequence> live_;
  std::map<int32_t, Content> content_;
};

TEST(PrefixCache, HoldsEveryReadersHistoryOverRandomSequences) {
  int64_t num_found = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    RandomSequences sequences(seed);
    for (int i = 0; i < 400; ++i) {
      sequences.step();
      sequences.expect_whole();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " step " << i;
    }
    sequences.end_all();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    num_found += sequences.num_found;
  }
  EXPECT_GT(num_found, 10000);  // the sequences did share
}

}  // namespace
}  // namespace trireme::rollout
