#include "trainer/rollout/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "trainer/rollout/philox.h"

namespace trireme::rollout {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(int64_t vocab_size, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab_size);
  for (float& x : logits) x = normal(random);
  return logits;
}

/// load() divides in place: each gets a row of its own, kept until the next.
bool load(Sampler& sampler, const std::vector<float>& logits, const SamplingConfig& sampling, bool greedy) {
  static std::vector<float> row;
  row = logits;
  return sampler.load(row.data(), sampling, greedy);
}

/// The distribution that is sampled from, in fp64, by the definition: sort, cut, normalise.
std::vector<double> expected_probabilities(const std::vector<float>& logits, const SamplingConfig& sampling) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  const auto weight = [&](int i) {
    return std::exp((double{logits[i]} - logits[order[0]]) / sampling.temperature);
  };
  while (weight(order.back()) < sampling.min_p) order.pop_back();
  if (sampling.top_k > 0) {
    size_t kept = std::min<size_t>(sampling.top_k, order.size());
    while (kept < order.size() && logits[order[kept]] == logits[order[kept - 1]]) ++kept;
    order.resize(kept);
  }
  std::vector<double> p(logits.size(), 0.0);
  double total = 0;
  for (const int i : order) total += p[i] = weight(i);
  double kept_mass = 0;
  for (const int i : order) {
    if (kept_mass > 0 && kept_mass >= sampling.top_p * total) p[i] = 0;
    kept_mass += p[i];
  }
  for (double& x : p) x /= kept_mass;
  return p;
}

TEST(Sampler, LogProbAndEntropyAreThoseOfTheWholeDistribution) {
  for (const int64_t vocab_size : {1, 2, 15, 64, 65, 259, 5000, 151936}) {
    for (const double temperature : {0.3, 1.0, 2.5}) {
      const auto logits = random_logits(vocab_size, 3.0f, static_cast<uint32_t>(vocab_size));
      double most = *std::max_element(logits.begin(), logits.end()), total = 0, entropy = 0;
      for (const float x : logits) total += std::exp((x - most) / temperature);
      const auto log_prob = [&](int64_t i) { return (logits[i] - most) / temperature - std::log(total); };
      for (int64_t i = 0; i < vocab_size; ++i) entropy -= std::exp(log_prob(i)) * log_prob(i);

      Sampler sampler(vocab_size);
      // The filters choose among fewer, but the log-probability stays that of all.
      for (const SamplingConfig& s :
           {SamplingConfig{temperature}, SamplingConfig{temperature, 3, 0.9, 0.1}}) {
        ASSERT_TRUE(load(sampler, logits, s, false));
        for (const double u : {0.0, 0.25, 0.5, 0.999}) {
          const SampledToken drawn = sampler.draw(u);
          EXPECT_NEAR(drawn.log_prob, log_prob(drawn.token), 1e-5);
          EXPECT_NEAR(drawn.entropy, entropy, 1e-5);
        }
      }
    }
  }
}

/// Pearson's chi-squared, brought to a standard normal number (Wilson and Hilferty's cube root). Tokens that
/// are ruled out must not appear; rare ones are counted together.
double deviations_from(const std::vector<double>& expected, const std::vector<int>& counts, int draws) {
  double chi_square = 0, rare_expected = 0;
  int degrees = -1, rare = 0;
  const auto add = [&](double want, int got) {
    chi_square += (got - want) * (got - want) / want;
    ++degrees;
  };
  for (size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i] * draws;
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
    } else if (want < 10) {
      rare_expected += want;
      rare += counts[i];
    } else {
      add(want, counts[i]);
    }
  }
  if (rare_expected > 10) add(rare_expected, rare);
  if (degrees <= 0) return 0;
  const double variance = 2.0 / (9.0 * degrees);
  return (std::cbrt(chi_square / degrees) - (1 - variance)) / std::sqrt(variance);
}

TEST(Sampler, DrawsFromTheExactDistributionUnderEverySetting) {
  constexpr int kDraws = 100000;
  double total = 0, settings = 0;
  for (const int vocab_size : {5, 97, 1200}) {
    const auto logits = random_logits(vocab_size, 1.5f, 5);
    Sampler sampler(vocab_size);
    for (const double temperature : {0.6, 1.0, 1.7}) {
      for (const int64_t top_k : {-1, 3, 40}) {
        for (const double top_p : {1.0, 0.9, 0.5}) {
          for (const double min_p : {0.0, 0.02, 0.3}) {
            const SamplingConfig sampling{temperature, top_k, top_p, min_p};
            ASSERT_TRUE(load(sampler, logits, sampling, false));
            std::vector<int> counts(vocab_size, 0);
            const PhiloxKey key = sampling_key(11, 2);
            const auto id = static_cast<int64_t>(settings);
            for (int i = 0; i < kDraws; ++i) ++counts[sampler.draw(sampling_uniform(key, id, 2, i)).token];
            const double deviations =
                deviations_from(expected_probabilities(logits, sampling), counts, kDraws);
            EXPECT_LT(deviations, 4) << vocab_size << " words, temperature " << temperature << ", top_k "
                                     << top_k << ", top_p " << top_p << ", min_p " << min_p;
            total += deviations;
            ++settings;
          }
        }
      }
    }
  }
  // Their mean over all settings: draws that are too even would show as well.
  EXPECT_NEAR(total / settings, 0.0, 4 / std::sqrt(settings));
}

TEST(Sampler, KeepsExactlyTheTokensThatMinPTopKAndTopPKeep) {
  for (uint32_t seed = 0; seed < 180; ++seed) {
    std::mt19937 random(seed);
    const bool is_large = seed >= 150;  // from even to a few likely ones
    const auto vocab_size = static_cast<int64_t>(is_large ? 5000 + random() % 3000 : 1 + random() % 300);
    auto logits = random_logits(vocab_size, is_large ? 0.2f * static_cast<float>(seed - 149) : 2.0f, seed);
    if (seed % 3 == 0) {
      for (float& x : logits) x = std::round(x);  // many equal logits
    }
    SamplingConfig sampling;
    sampling.temperature = 0.5 + 0.25 * (random() % 5);
    sampling.top_k = random() % 2 ? static_cast<int64_t>(1 + random() % vocab_size) : -1;
    sampling.top_p = random() % 2 ? 0.05 + 0.1 * (random() % 10) : 1.0;
    sampling.min_p = random() % 3 == 0 ? 0.013 * (1 + random() % 70) : 0.0;
    const auto expected = expected_probabilities(logits, sampling);
    Sampler sampler(vocab_size);
    ASSERT_TRUE(load(sampler, logits, sampling, false));
    // A sweep over the uniform number meets every token with more than its step, in order of ids.
    constexpr int kSteps = 20000;
    std::vector<double> seen(vocab_size, 0.0);
    int32_t previous = 0;
    for (int i = 0; i < kSteps; ++i) {
      const int32_t token = sampler.draw((i + 0.5) / kSteps).token;
      EXPECT_GE(token, previous);
      previous = token;
      seen[token] += 1.0 / kSteps;
    }
    for (int64_t i = 0; i < vocab_size; ++i)
      ASSERT_NEAR(seen[i], expected[i], 1.5 / kSteps) << seed << " " << i;
    if (is_large) continue;  // fp32 may end a nucleus of so many a token sooner or later
    // The ends of the range are the first and the last of them, however sums were rounded.
    const auto can_be = [](double probability) { return probability > 0; };
    EXPECT_EQ(sampler.draw(0.0).token,
              std::find_if(expected.begin(), expected.end(), can_be) - expected.begin());
    EXPECT_EQ(sampler.draw(1.0 - 0x1p-53).token,
              vocab_size - 1 - (std::find_if(expected.rbegin(), expected.rend(), can_be) - expected.rbegin()))
        << seed;
  }
}

TEST(Sampler, GreedyTakesTheLowestOfTheLargest) {
  std::vector<float> logits(300, 0.0f);
  logits[77] = logits[78] = logits[299] = 4.0f;
  Sampler sampler(300);
  ASSERT_TRUE(load(sampler, logits, {}, true));
  EXPECT_EQ(sampler.draw(0.99).token, 77);
  EXPECT_NEAR(sampler.draw(0).log_prob, 4.0 - std::log(297 + 3 * std::exp(4.0)), 1e-5);
  // Temperature 0 is greedy too, and its log-probability that of temperature 1.
  ASSERT_TRUE(load(sampler, logits, {.temperature = 0}, false));
  EXPECT_EQ(sampler.draw(0.99).token, 77);
  EXPECT_NEAR(sampler.draw(0).log_prob, 4.0 - std::log(297 + 3 * std::exp(4.0)), 1e-5);
}

TEST(Sampler, NeverDrawsATokenOfProbabilityZero) {
  std::vector<float> logits(200, -900.0f);
  logits[63] = 1.0f;
  logits[130] = 1.0f;
  logits[131] = -500.0f;
  Sampler sampler(200);
  for (const double top_p : {1.0, 0.9}) {
    ASSERT_TRUE(load(sampler, logits, {.top_p = top_p}, false));
    EXPECT_EQ(sampler.draw(0.0).token, 63);
    EXPECT_EQ(sampler.draw(0.4999).token, 63);
    EXPECT_EQ(sampler.draw(0.5001).token, 130);
    EXPECT_EQ(sampler.draw(1.0 - 0x1p-53).token, 130);
    EXPECT_NEAR(sampler.draw(0.0).entropy, std::log(2.0), 1e-6);
  }
}

TEST(Sampler, RefusesRowsThatAreNoDistribution) {
  Sampler sampler(70);
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    for (const size_t place : {0, 69}) {
      std::vector<float> logits(70, 0.5f);
      logits[place] = bad;
      EXPECT_FALSE(load(sampler, logits, {}, false));
      EXPECT_FALSE(load(sampler, logits, {.top_k = 5, .top_p = 0.5, .min_p = 0.1}, false));
      EXPECT_FALSE(load(sampler, logits, {}, true));
    }
  }
}

}  // namespace
}  // namespace trireme::rollout
