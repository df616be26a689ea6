// The GPU attention kernels on the double of a GPU: against an fp64 oracle over random schedules, and bit for
// bit between all the ways in which a history can be cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/trainer/models/gpu_kernels_double.h"
#include "trainer/models/attention_work.h"
#include "trainer/models/forward_batch.h"

namespace trireme::models {
namespace {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int32_t between(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(engine_);
  }
  float normal() { return std::normal_distribution<float>()(engine_); }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    std::shuffle(values.begin(), values.end(), engine_);
  }

 private:
  std::mt19937 engine_;
};

float widened(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
float widened(float value) {
  return value;
}
template <typename T>
T narrowed(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return static_cast<T>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  }
}

/// Histories whose keys and values are known by position, and a cache that holds them on scattered pages.
template <typename T>
struct World {
  AttentionShape shape;
  int32_t num_slots;
  std::vector<T> keys, values;              // [slots, kv_heads, hd]
  std::vector<std::vector<int32_t>> slots;  // [history][position]
  std::vector<std::vector<T>> queries;      // [history][position, heads, hd]

  World(Random& random, AttentionShape of, std::vector<int32_t> lengths, int32_t page) : shape(of) {
    std::vector<int32_t> pages;
    int32_t needed = 0;
    for (const int32_t length : lengths) needed += (length + page - 1) / page;
    for (int32_t p = 0; p < needed + 3; ++p) pages.push_back(p);
    random.shuffle(pages);
    num_slots = (needed + 3) * page;
    const size_t width = static_cast<size_t>(shape.kv_heads * shape.head_dim);
    keys.resize(static_cast<size_t>(num_slots) * width);
    values.resize(keys.size());
    for (T& x : keys) x = narrowed<T>(random.normal());
    for (T& x : values) x = narrowed<T>(random.normal());
    int32_t taken = 0;
    for (const int32_t length : lengths) {
      auto& own = slots.emplace_back();
      for (int32_t i = 0; i < length; ++i)
        own.push_back(pages[static_cast<size_t>(taken + i / page)] * page + i % page);
      taken += (length + page - 1) / page;
      auto& q = queries.emplace_back(static_cast<size_t>(length * shape.heads * shape.head_dim));
      for (T& x : q) x = narrowed<T>(random.normal());
    }
  }

  std::vector<SlotSpan> spans(size_t history, int32_t length) const {
    std::vector<SlotSpan> spans;
    for (int32_t i = 0; i < length; ++i) {
      const int32_t slot = slots[history][static_cast<size_t>(i)];
      if (spans.empty() || spans.back().slot + spans.back().length != slot) spans.push_back({slot, 0});
      ++spans.back().length;
    }
    return spans;
  }

  /// Of (history, position): [heads, hd] in fp64.
  std::vector<double> oracle(size_t history, int32_t position) const {
    const int hd = shape.head_dim, group = shape.heads / shape.kv_heads;
    std::vector<double> out(static_cast<size_t>(shape.heads * hd));
    for (int h = 0; h < shape.heads; ++h) {
      const T* const q = &queries[history][static_cast<size_t>((position * shape.heads + h) * hd)];
      std::vector<double> scores;
      for (int32_t k = 0; k <= position; ++k) {
        const T* const key = at(keys, history, k, h / group);
        double score = 0;
        for (int d = 0; d < hd; ++d) score += static_cast<double>(widened(q[d])) * widened(key[d]);
        scores.push_back(score / std::sqrt(static_cast<double>(hd)));
      }
      const double most = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (double& s : scores) total += s = std::exp(s - most);
      for (int32_t k = 0; k <= position; ++k)
        for (int d = 0; d < hd; ++d)
          out[static_cast<size_t>(h * hd + d)] +=
              scores[static_cast<size_t>(k)] / total * widened(at(values, history, k, h / group)[d]);
    }
    return out;
  }
  const T* at(const std::vector<T>& cache, size_t history, int32_t position, int kv_head) const {
    return &cache[static_cast<size_t>(
        (slots[history][static_cast<size_t>(position)] * shape.kv_heads + kv_head) * shape.head_dim)];
  }
};

/// Rows [begin, end) of a history in a batch.
struct Part {
  size_t history;
  int32_t begin, end;
};

template <typename T>
std::vector<T> compute(const World<T>& world, const std::vector<Part>& parts, int64_t partial_rows) {
  const int32_t width = world.shape.heads * world.shape.head_dim;
  std::vector<Segment> segments;
  std::vector<T> q;
  int32_t rows = 0;
  for (const Part& part : parts) {
    segments.push_back({rows, part.end - part.begin, part.begin, world.spans(part.history, part.end)});
    rows += part.end - part.begin;
    q.insert(q.end(), world.queries[part.history].begin() + part.begin * width,
             world.queries[part.history].begin() + part.end * width);
  }
  std::vector<int32_t> words;
  lay_out_work(segments, world.shape.heads / world.shape.kv_heads, partial_rows, words);
  AttentionWorkHeader header;
  std::memcpy(&header, words.data(), sizeof header);
  std::vector<float> partials(
      static_cast<size_t>(partial_rows * world.shape.kv_heads * (world.shape.head_dim + 2)), NAN);
  std::vector<T> out(q.size(), narrowed<T>(77.0f));
  gpu_kernels_double().attention(
      {world.shape, sizeof(T) == 4 ? Element::f32 : Element::bf16, q.data(), width, world.keys.data(),
       world.values.data(), world.shape.kv_heads * world.shape.head_dim, out.data(), nullptr, words.data(),
       partials.data(), header.num_items + 5},
      nullptr);
  return out;
}

template <typename T>
void expect_right(uint32_t seed, AttentionShape shape, int32_t longest) {
  Random random(seed);
  std::vector<int32_t> lengths;
  for (int i = 0; i < 3; ++i) lengths.push_back(random.between(1, longest));
  const World<T> world(random, shape, lengths, 1 << random.between(0, 5));
  // Whole histories: neither chunks nor splits.
  std::vector<Part> whole;
  for (size_t h = 0; h < lengths.size(); ++h) whole.push_back({h, 0, lengths[h]});
  const std::vector<T> expected = compute(world, whole, 0);
  const int32_t width = shape.heads * shape.head_dim;
  std::vector<int32_t> first_row{0};
  for (const int32_t length : lengths) first_row.push_back(first_row.back() + length);
  for (size_t h = 0; h < lengths.size(); ++h)
    for (int32_t p = lengths[h] - 1; p >= 0; p -= 1 + p / 3) {
      const std::vector<double> right = world.oracle(h, p);
      for (int32_t i = 0; i < width; ++i)
        ASSERT_NEAR(widened(expected[static_cast<size_t>((first_row[h] + p) * width + i)]),
                    right[static_cast<size_t>(i)], sizeof(T) == 4 ? 2e-6 : 1e-2)
            << "history " << h << " position " << p;
    }
  // Random chunks in random company, splits as far as a random room for them goes.
  std::vector<Part> left;
  for (size_t h = 0; h < lengths.size(); ++h)
    for (int32_t begin = 0; begin < lengths[h];) {
      const int32_t end =
          std::min(lengths[h], begin + (random.between(0, 2) ? random.between(1, 3) : random.between(1, 60)));
      if (random.between(0, 3) == 0 || end == lengths[h]) left.push_back({h, begin, end});
      begin = end;
    }
  random.shuffle(left);
  while (!left.empty()) {
    const auto count = std::min<size_t>(left.size(), static_cast<size_t>(random.between(1, 5)));
    const std::vector<Part> parts(left.end() - static_cast<int64_t>(count), left.end());
    left.resize(left.size() - count);
    const std::vector<T> out = compute(world, parts, random.between(0, 2) ? 1000 : random.between(0, 60));
    size_t row = 0;
    for (const Part& part : parts)
      for (int32_t p = part.begin; p < part.end; ++p, ++row)
        ASSERT_EQ(std::memcmp(&out[row * static_cast<size_t>(width)],
                              &expected[static_cast<size_t>((first_row[part.history] + p) * width)],
                              static_cast<size_t>(width) * sizeof(T)),
                  0)
            << "history " << part.history << " position " << p << " of rows " << part.begin << ".."
            << part.end;
  }
}

TEST(GpuAttention, IsRightAndTheSameBitsInEverySchedule) {
  uint32_t seed = 0;
  for (const int32_t head_dim : {64, 128})
    for (int32_t group = 1; group <= 8; ++group) {
      const AttentionShape shape{2 * group, 2, head_dim};
      SCOPED_TRACE(testing::Message() << "group " << group << ", head_dim " << head_dim);
      expect_right<float>(++seed, shape, 140);
      expect_right<uint16_t>(++seed, shape, 140);
    }
}

TEST(GpuAttention, LongHistoriesAndLargeGroups) {
  expect_right<float>(100, {7, 1, 64}, 600);
  expect_right<uint16_t>(101, {16, 1, 64}, 300);
  expect_right<uint16_t>(102, {9, 1, 128}, 300);
  expect_right<float>(103, {12, 3, 128}, 200);
}

TEST(GpuAttention, WorkNamesEveryKeyOfEveryQueryOnce) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const int32_t group = random.between(1, 17);
    std::vector<Segment> segments;
    int32_t rows = 0, slot = 0;
    for (int s = random.between(1, 6); s > 0; --s) {
      const int32_t length = random.between(1, 5) == 1 ? random.between(1, 100) : 1;
      Segment segment{rows, length, random.between(0, 700), {}};
      for (int32_t left = segment.position + length; left > 0;) {
        const int32_t run = std::min(left, random.between(0, 40));  // empty spans are allowed
        segment.spans.push_back({slot += 50, run});
        left -= run;
      }
      rows += length;
      segments.push_back(segment);
    }
    const int64_t partial_rows = random.between(0, 200);
    std::vector<int32_t> words;
    lay_out_work(segments, group, partial_rows, words);
    AttentionWorkHeader header;
    std::memcpy(&header, words.data(), sizeof header);
    const auto* items = reinterpret_cast<const AttentionItem*>(&words[static_cast<size_t>(header.items_at)]);
    const auto* merges = reinterpret_cast<const AttentionMerge*>(words.data() + header.merges_at);
    const auto* spans = reinterpret_cast<const SlotSpan*>(words.data() + header.spans_at);
    std::vector<int32_t> used(static_cast<size_t>(partial_rows), 0);
    std::vector<std::vector<int32_t>> keys(static_cast<size_t>(rows * group));  // seen, in ascending order
    for (int32_t i = 0; i < header.num_items; ++i) {
      const AttentionItem& item = items[i];
      ASSERT_TRUE(item.num_queries >= 1 && item.num_queries <= kQueries && item.key_begin % kKeySplit == 0);
      for (int32_t q = 0; q < item.num_queries; ++q) {
        auto& seen = keys[static_cast<size_t>(item.row * group + item.first_query + q)];
        int32_t span = item.span, offset = item.offset;
        for (int32_t k = item.key_begin; k < item.key_end; ++k, ++offset) {
          while (offset >= spans[span].length) offset -= spans[span++].length;
          if (k <= item.position + (item.first_query + q) / group) seen.push_back(spans[span].slot + offset);
        }
        if (item.partial >= 0) {
          ASSERT_EQ(used.at(static_cast<size_t>(item.partial + q))++, 0);
        }
      }
    }
    int64_t merged = 0;
    for (int32_t i = 0; i < header.num_merges; ++i) {
      ASSERT_GE(merges[i].num_splits, 2);
      merged += merges[i].num_splits * merges[i].num_queries;
    }
    ASSERT_EQ(merged, std::count(used.begin(), used.end(), 1));
    for (const Segment& segment : segments) {
      std::vector<int32_t> slots;
      for (const SlotSpan& span : segment.spans)
        for (int32_t i = 0; i < span.length; ++i) slots.push_back(span.slot + i);
      for (int32_t q = 0; q < segment.length * group; ++q) {
        const std::vector<int32_t> visible(slots.begin(), slots.begin() + segment.position + q / group + 1);
        ASSERT_EQ(keys[static_cast<size_t>(segment.row * group + q)], visible);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::models
