// The draw kernel on the double of a GPU, against the distribution in fp64.
#include "trainer/rollout/draw_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "tests/trainer/models/gpu_kernels_double.h"
#include "tests/trainer/rollout/draw_kernel_double.h"

namespace trireme::rollout {
namespace {

struct Row {
  std::vector<float> logits;
  SamplingConfig sampling;
  float min_p = 0;
  bool greedy = false;
  std::vector<double> uniforms;
};

float inverse_temperature(const Row& row) {
  return static_cast<float>(1.0 / (row.sampling.temperature == 0 ? 1.0 : row.sampling.temperature));
}

std::vector<SampledToken> draw(const std::vector<Row>& rows) {
  const auto vocab = static_cast<int64_t>(rows[0].logits.size());
  const auto chunks = static_cast<size_t>(models::vocab_chunks(vocab)) * rows.size();
  std::vector<float> logits, inverse;
  std::vector<DrawSettings> settings;
  std::vector<double> uniforms;
  for (const Row& row : rows) {
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    inverse.push_back(inverse_temperature(row));
    DrawSettings own;
    own.top_p = row.sampling.top_p;
    own.min_p = row.min_p;
    own.top_k = static_cast<int32_t>(std::max<int64_t>(row.sampling.top_k, 0));
    own.greedy = row.greedy;
    own.first_draw = static_cast<int32_t>(uniforms.size());
    own.num_draws = static_cast<int32_t>(row.uniforms.size());
    settings.push_back(own);
    uniforms.insert(uniforms.end(), row.uniforms.begin(), row.uniforms.end());
  }
  std::vector<models::ChunkStats> chunk_stats(chunks);
  std::vector<models::SoftmaxRow> stats(rows.size());
  const auto num_rows = static_cast<int64_t>(rows.size());
  models::gpu_kernels_double().softmax(
      {logits.data(), num_rows, vocab, inverse.data(), chunk_stats.data(), stats.data()}, nullptr);
  std::vector<uint64_t> masses(chunks);
  std::vector<uint32_t> ties(chunks);
  std::vector<SampledToken> drawn(uniforms.size());
  draw_kernel_double()({logits.data(), num_rows, vocab, inverse.data(), chunk_stats.data(), stats.data(),
                        settings.data(), uniforms.data(), masses.data(), ties.data(), drawn.data()},
                       nullptr);
  return drawn;
}

/// Which tokens may be drawn, by sorting.
std::vector<bool> kept_by_sorting(const Row& row) {
  const auto vocab = static_cast<int>(row.logits.size());
  const float factor = inverse_temperature(row);
  std::vector<float> x(row.logits);
  for (float& logit : x) logit *= factor;
  std::vector<int> order(static_cast<size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
  const float most = x[order[0]];
  const int64_t k = row.sampling.top_k;
  const float kth = k > 0 && k < vocab ? x[order[k - 1]] : -INFINITY;
  const auto weight = [&](int i) { return std::exp(static_cast<double>(x[i]) - most); };
  std::vector<int> candidates;
  double total = 0, sum = 0;
  for (const int i : order)
    if (x[i] >= kth && weight(i) >= row.min_p) {
      candidates.push_back(i);
      total += weight(i);
    }
  std::vector<bool> kept(static_cast<size_t>(vocab), false);
  for (const int i : candidates) {
    if (row.sampling.top_p < 1 && sum >= row.sampling.top_p * total && sum > 0) break;
    kept[i] = true;
    sum += weight(i);
  }
  return kept;
}

void expect_right(const Row& row, const SampledToken* drawn) {
  const std::vector<bool> kept = kept_by_sorting(row);
  const float factor = inverse_temperature(row);
  const double most = *std::max_element(row.logits.begin(), row.logits.end()) * static_cast<double>(factor);
  double total = 0, all = 0, entropy = 0;
  std::vector<double> weights;
  for (size_t i = 0; i < row.logits.size(); ++i) {
    weights.push_back(std::exp(row.logits[i] * static_cast<double>(factor) - most));
    all += weights.back();
    total += kept[i] ? weights.back() : 0;
  }
  for (const double w : weights)
    if (w > 0) entropy -= w / all * std::log(w / all);
  for (size_t d = 0; d < row.uniforms.size(); ++d) {
    const int32_t token = drawn[d].token;
    ASSERT_TRUE(token >= 0 && token < static_cast<int32_t>(row.logits.size()));
    ASSERT_TRUE(kept[token]) << "token " << token << " draw " << d;
    double before = 0;
    for (int32_t i = 0; i < token; ++i) before += kept[i] ? weights[i] : 0;
    EXPECT_GE(row.uniforms[d] + 1e-6, before / total) << d;
    EXPECT_LE(row.uniforms[d] - 1e-6, (before + weights[token]) / total) << d;
    EXPECT_NEAR(drawn[d].log_prob, std::log(weights[token] / all), 1e-5);
    EXPECT_NEAR(drawn[d].entropy, entropy, 1e-5);
  }
}

class RandomRows {
 public:
  explicit RandomRows(uint32_t seed) : random_(seed) {}
  Row row(int64_t vocab) {
    Row row;
    const float spread = std::array{0.1f, 1.0f, 4.0f, 30.0f}[random_() % 4];
    // In some rows many logits are equal.
    const float grain = random_() % 3 == 0 ? spread / 3 : 0.0f;
    for (int64_t i = 0; i < vocab; ++i) {
      const float x = spread * std::normal_distribution<float>()(random_);
      row.logits.push_back(grain > 0 ? std::round(x / grain) * grain : x);
    }
    row.sampling.temperature = random_() % 2 ? 1.0 : 0.6;
    for (int d = static_cast<int>(random_() % 20); d >= 0; --d)
      row.uniforms.push_back(std::uniform_real_distribution<double>(0, 1)(random_));
    row.uniforms.push_back(0.0);
    row.uniforms.push_back(std::nextafter(1.0, 0.0));
    return row;
  }
  uint32_t operator()() { return random_(); }

 private:
  std::mt19937 random_;
};

TEST(DrawKernel, DrawsFromTheWholeDistribution) {
  RandomRows random(1);
  for (const int64_t vocab : {1, 2, 127, 1024, 1030, 3001}) {
    std::vector<Row> rows;
    for (int r = 0; r < 4; ++r) rows.push_back(random.row(vocab));
    const std::vector<SampledToken> drawn = draw(rows);
    size_t at = 0;
    for (const Row& row : rows) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocab);
      expect_right(row, &drawn[at]);
      at += row.uniforms.size();
    }
  }
}

TEST(DrawKernel, FiltersKeepWhatSortingKeeps) {
  RandomRows random(2);
  for (int round = 0; round < 40; ++round) {
    const int64_t vocab = std::array<int64_t, 5>{1, 50, 700, 1024, 2500}[random() % 5];
    Row row = random.row(vocab);
    if (random() % 2) row.sampling.top_k = std::array{1, 2, 7, 40, 5000}[random() % 5];
    if (random() % 2) row.sampling.top_p = std::array{1e-9, 0.3, 0.9, 0.999}[random() % 4];
    if (random() % 3 == 0) row.min_p = std::array{0.01f, 0.2f, 1.0f}[random() % 3];
    SCOPED_TRACE(testing::Message() << "round " << round << " vocabulary " << vocab << " top_k "
                                    << row.sampling.top_k << " top_p " << row.sampling.top_p << " min_p "
                                    << row.min_p);
    const std::vector<SampledToken> drawn = draw({row});
    expect_right(row, drawn.data());
    if (testing::Test::HasFailure()) return;
  }
}

TEST(DrawKernel, EveryTokenThatIsKeptCanBeDrawnAndOfEqualsTheLowerOnes) {
  Row row;
  row.logits.assign(2100, 0.0f);
  row.logits[7] = row.logits[1500] = -1.0f;
  row.sampling.top_p = 0.25;
  for (int i = 0; i < 1000; ++i) row.uniforms.push_back(i / 1000.0);
  const std::vector<SampledToken> drawn = draw({row});
  expect_right(row, drawn.data());
  EXPECT_EQ(drawn[0].token, 0);
  EXPECT_GT(drawn[999].token, 500);
  EXPECT_LT(drawn[999].token, 540);  // the first quarter, and none of the equal ones behind
}

TEST(DrawKernel, GreedyTakesTheFirstOfTheLargest) {
  RandomRows random(3);
  Row row = random.row(3000);
  row.logits[1033] = row.logits[1034] = row.logits[2999] = 1000.0f;
  row.greedy = true;
  for (const SampledToken& drawn : draw({row})) EXPECT_EQ(drawn.token, 1033);
}

TEST(DrawKernel, ARowIsDrawnAlikeAloneAndAmongOthers) {
  RandomRows random(4);
  std::vector<Row> rows;
  for (int r = 0; r < 5; ++r) {
    rows.push_back(random.row(1500));
    if (r % 2) rows.back().sampling.top_p = 0.8;
  }
  const std::vector<SampledToken> together = draw(rows);
  size_t at = 0;
  for (const Row& row : rows) {
    const std::vector<SampledToken> alone = draw({row});
    ASSERT_EQ(std::memcmp(alone.data(), &together[at], alone.size() * sizeof(SampledToken)), 0);
    at += alone.size();
  }
}

TEST(DrawKernel, NoTokenWhereLogitsAreNotNumbers) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const bool greedy : {false, true})
      for (const double top_p : {1.0, 0.9}) {
        RandomRows random(5);
        Row row = random.row(2000), fine = random.row(2000);
        row.logits[1999] = bad;
        row.greedy = greedy;
        row.sampling.top_p = top_p;
        const std::vector<SampledToken> drawn = draw({fine, row});
        EXPECT_GE(drawn[0].token, 0);
        EXPECT_EQ(drawn[fine.uniforms.size()].token, -1);
      }
}

}  // namespace
}  // namespace trireme::rollout
