// For one history a row of attention has the same bits alone, in a packed batch with its prompt shared, and
// in a paged cache under any schedule of chunks, pages and neighbours. Random shapes and schedules; run for
// each instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include "trainer/models/attention_runs.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/ops.h"

namespace trireme::models {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int32_t between(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(engine_);
  }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int32_t>(values.size()) - 1)];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    std::shuffle(values.begin(), values.end(), engine_);
  }

 private:
  std::mt19937_64 engine_;
};

// A text as attention sees it: a prompt that several histories begin with, and what is its own.
struct History {
  int32_t prompt, prompt_length, length;
  at::Tensor qkv;    // [length, qkv_width]
  at::Tensor alone;  // [length, heads * head_dim]
};

struct World {
  AttentionDims dims;
  at::ScalarType dtype;
  at::Tensor rope;
  std::vector<int32_t> prompt_lengths;
  std::vector<History> histories;  // those of one prompt side by side
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.numel() == y.numel() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), static_cast<size_t>(x.nbytes())) == 0;
}

void append(ForwardBatch& batch, int32_t position, int32_t length, std::vector<SlotSpan> spans,
            const std::vector<int32_t>& slots) {
  const auto row = static_cast<int32_t>(batch.tokens.size());
  batch.segments.push_back({row, length, position, std::move(spans)});
  for (int32_t i = 0; i < length; ++i) {
    batch.tokens.push_back(0);
    batch.positions.push_back(position + i);
    batch.slots.push_back(slots[static_cast<size_t>(i)]);
  }
}

BatchPlan plan_of(const World& world, const ForwardBatch& batch) {
  BatchPlan plan;
  plan.batch = &batch;
  plan.positions_T =
      at::from_blob(const_cast<int32_t*>(batch.positions.data()), {batch.num_rows()}, at::kInt);
  plan.rope = world.rope;
  return plan;
}

at::Tensor packed_alone(const World& world, const at::Tensor& qkv) {
  ForwardBatch batch;
  const auto length = static_cast<int32_t>(qkv.size(0));
  append(batch, 0, length, {{0, length}}, std::vector<int32_t>(static_cast<size_t>(length)));
  return attention_packed(qkv, world.dims, plan_of(world, batch));
}

World make_world(Random& random) {
  World world;
  world.dtype = random.one_of({at::kFloat, at::kBFloat16});
  const int32_t kv_heads = random.between(1, 3), group = random.one_of({1, 2, 3, 4, 7, 8, 14});
  world.dims = {kv_heads * group, kv_heads,
                random.one_of({2, 4, 6, 10, 12, 16, 24, 32, 48, 64, 80, 128, 256})};
  const at::Tensor angles = at::randn({640, world.dims.head_dim / 2}, at::kFloat);
  world.rope = at::cat({angles.cos(), angles.sin()}, 1);
  const int32_t most = random.one_of({20, 80, 200});
  for (int32_t prompt = 0, prompts = random.between(1, 3); prompt < prompts; ++prompt) {
    const int32_t prompt_length = random.between(1, most);
    world.prompt_lengths.push_back(prompt_length);
    const at::Tensor shared = at::randn({prompt_length, world.dims.qkv_width()}, at::kFloat).to(world.dtype);
    for (int32_t sample = 0, samples = random.between(1, 5); sample < samples; ++sample) {
      const int32_t own = random.between(1, most);
      const at::Tensor rest = at::randn({own, world.dims.qkv_width()}, at::kFloat).to(world.dtype);
      History history{prompt, prompt_length, prompt_length + own, at::cat({shared, rest}), {}};
      history.alone = packed_alone(world, history.qkv);
      world.histories.push_back(std::move(history));
    }
  }
  return world;
}

// As in training: each prompt once, then what follows it.
void expect_packed_rows(const World& world) {
  ForwardBatch batch;
  std::vector<at::Tensor> inputs, expected;
  SlotSpan prompt{};
  for (size_t i = 0; i < world.histories.size(); ++i) {
    const History& history = world.histories[i];
    const auto add = [&](int32_t begin, int32_t length, std::vector<SlotSpan> spans) {
      const auto row = static_cast<int32_t>(batch.tokens.size());
      spans.push_back({row, length});
      append(batch, begin, length, spans, std::vector<int32_t>(static_cast<size_t>(length)));
      inputs.push_back(history.qkv.narrow(0, begin, length));
      expected.push_back(history.alone.narrow(0, begin, length));
      return SlotSpan{row, length};
    };
    if (i == 0 || world.histories[i - 1].prompt != history.prompt) prompt = add(0, history.prompt_length, {});
    add(history.prompt_length, history.length - history.prompt_length, {prompt});
  }
  EXPECT_TRUE(
      same_bits(attention_packed(at::cat(inputs), world.dims, plan_of(world, batch)), at::cat(expected)));
}

// As in rollout: pages that lie anywhere, whole pages of a prompt shared, rows in chunks of any size. A cache
// begins with NaN, so that a key that is not the row's own shows.
void expect_paged_rows(const World& world, Random& random) {
  const int32_t page = random.one_of({1, 8, 16, 32});
  const auto count = world.histories.size();
  int32_t num_pages = 0;
  std::vector<std::vector<int32_t>> table(count);
  for (size_t i = 0; i < count; ++i) {
    const History& history = world.histories[i];
    const bool first = i == 0 || world.histories[i - 1].prompt != history.prompt;
    const int32_t whole = first || random.between(0, 3) == 0 ? 0 : history.prompt_length / page;
    for (int32_t p = 0; p * page < history.length; ++p)
      table[i].push_back(p < whole ? table[i - 1][static_cast<size_t>(p)] : num_pages++);
  }
  std::vector<int32_t> places;
  for (int32_t p = 0; p < num_pages; ++p) places.push_back(p);
  random.shuffle(places);
  LayerKv kv;
  kv.keys = at::full({num_pages * page, world.dims.kv_heads, world.dims.head_dim}, NAN,
                     at::TensorOptions().dtype(world.dtype));
  kv.values = kv.keys.clone();
  const auto slot_of = [&](size_t i, int32_t position) {
    return places[static_cast<size_t>(table[i][static_cast<size_t>(position / page)])] * page +
           position % page;
  };

  std::vector<int32_t> done(count, 0);
  for (bool left = true; left;) {
    left = false;
    ForwardBatch batch;
    std::vector<at::Tensor> inputs, expected;
    const int32_t eager = random.between(0, 2);  // all decode, or some do, in chunks
    for (size_t i = 0; i < count; ++i) {
      const History& history = world.histories[i];
      const int32_t begin = done[i];
      if (begin == history.length) continue;
      left = true;
      if (eager == 0 && random.between(0, 1) == 0) continue;
      const bool decodes = eager == 2 && begin >= history.prompt_length;
      const int32_t length = decodes ? 1 : random.between(1, std::min(history.length - begin, 90));
      std::vector<SlotSpan> spans;
      const bool merged = random.between(0, 1) == 0;
      std::vector<int32_t> slots;
      for (int32_t position = 0; position < begin + length; ++position) {
        const int32_t slot = slot_of(i, position);
        if (position >= begin) slots.push_back(slot);
        const bool goes_on = !spans.empty() && spans.back().slot + spans.back().length == slot;
        if (goes_on && (merged || position % page != 0))
          ++spans.back().length;
        else
          spans.push_back({slot, 1});
      }
      append(batch, begin, length, spans, slots);
      inputs.push_back(history.qkv.narrow(0, begin, length));
      expected.push_back(history.alone.narrow(0, begin, length));
      done[i] += length;
    }
    if (inputs.empty()) continue;
    ASSERT_TRUE(
        same_bits(attention_paged(at::cat(inputs), world.dims, plan_of(world, batch), kv), at::cat(expected)))
        << "page " << page;
  }
}

TEST(AttentionExactness, ARowsBitsDependOnItsHistoryAlone) {
  const at::NoGradGuard no_gradients;
  at::manual_seed(7);
  for (uint64_t seed = 0; seed < 60 && !testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    const World world = make_world(random);
    SCOPED_TRACE(testing::Message() << cpu_kernels().name << ", seed " << seed << ", heads "
                                    << world.dims.heads << "/" << world.dims.kv_heads << ", head_dim "
                                    << world.dims.head_dim << ", " << toString(world.dtype));
    expect_packed_rows(world);
    expect_paged_rows(world, random);
  }
}

SegmentView view(int32_t row, int32_t length, int32_t position, const std::vector<SlotSpan>& spans) {
  return {row, length, position, spans.data(), static_cast<int32_t>(spans.size())};
}

TEST(SharedRuns, TakeTogetherTheWholeBlocksThatNeighboursBeginWith) {
  const std::vector<SlotSpan> a{{0, 100}, {500, 60}}, cut{{0, 30}, {30, 70}, {600, 60}}, other{{200, 160}},
      shorter{{0, 70}, {700, 90}};
  const std::vector<SegmentView> views{view(0, 1, 159, a), view(1, 1, 159, cut), view(2, 1, 159, shorter),
                                       view(3, 1, 159, other), view(4, 1, 159, other)};
  const auto runs = shared_runs(views, 100);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].count, 3);
  EXPECT_EQ(runs[0].shared, 64);
  EXPECT_EQ(runs[1].first, 3);
  EXPECT_EQ(runs[1].shared, 128);
  EXPECT_EQ(shared_runs(views, 1).size(), 5u);
}

TEST(SharedRuns, NeverSpanARowsOwnBlock) {
  const std::vector<SlotSpan> spans{{0, 200}};
  const auto runs = shared_runs({view(0, 20, 120, spans), view(20, 2, 190, spans)}, 100);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].shared, 64);
  EXPECT_EQ(shared_runs({view(0, 20, 60, spans), view(20, 2, 190, spans)}, 100).size(), 2u);
}

TEST(IndependentGroups, HoldTheSegmentsThatSeeEachOthersRows) {
  const std::vector<SlotSpan> first{{0, 5}}, second{{5, 4}}, of_first{{0, 5}, {9, 3}},
      of_second{{5, 4}, {12, 1}};
  const auto groups = independent_groups(
      {view(0, 5, 0, first), view(5, 4, 0, second), view(9, 3, 5, of_first), view(12, 1, 4, of_second)});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0], (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(groups[1], (std::vector<int32_t>{1, 3}));
}

}  // namespace
}  // namespace trireme::models
