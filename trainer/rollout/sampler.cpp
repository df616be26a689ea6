#include "trainer/rollout/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

#include "trainer/models/cpu_kernels.h"

namespace trireme::rollout {
namespace {

// Vectors of 4, which every machine has. Sums run in 4 such accumulators within a chunk, and chunks are added
// in order in fp64: one fixed order.
constexpr int kLanes = 4;
constexpr int kAccumulators = 4;
constexpr float kLeast = -87.0f;  // exp() below this is taken for 0

// The compilers' vector types; the arithmetic is elementwise and exactly that of floats.
using Floats [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Bits [[gnu::vector_size(kLanes * sizeof(float))]] = uint32_t;
using Integers [[gnu::vector_size(kLanes * sizeof(float))]] = int32_t;
using Doubles [[gnu::vector_size(2 * sizeof(double))]] = double;

inline Floats load_lanes(const float* from) {
  Floats out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}

inline void store_lanes(Floats values, float* to) {
  std::memcpy(to, &values, sizeof(values));
}

inline bool any(Integers truths) {
  int64_t halves[2];
  std::memcpy(halves, &truths, sizeof(truths));
  return (halves[0] | halves[1]) != 0;
}

/// In fp64, which rounds far below what a random number tells apart.
class DoubleSum {
 public:
  void add(Floats values) {
    even_ += __builtin_convertvector(__builtin_shufflevector(values, values, 0, 1), Doubles);
    odd_ += __builtin_convertvector(__builtin_shufflevector(values, values, 2, 3), Doubles);
  }
  double total() const { return (even_[0] + even_[1]) + (odd_[0] + odd_[1]); }

 private:
  Doubles even_{}, odd_{};
};

/// The least weight that is not below `bound` and not 0.
float at_least(double bound) {
  auto result = static_cast<float>(bound);
  if (result < bound) result = std::nextafter(result, std::numeric_limits<float>::infinity());
  return std::max(result, std::numeric_limits<float>::min());
}

constexpr int kIntervals = 1024;

/// exp(x) for kLeast <= x <= 0, to about 1 ulp: 2^n times a polynomial on the remainder.
inline Floats exp_of_negative(Floats x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const Floats shifted = x * 1.44269504f + kRound;
  const Floats n = shifted - kRound;
  const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Bits exponent = ((Bits)shifted + (127u - 0x4B400000u)) << 23;
  return p * (Floats)exponent;
}

float largest(const float* values, int64_t count) {
  Floats most[kAccumulators];
  std::fill_n(most, kAccumulators, Floats{} - std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + kAccumulators * kLanes <= count; i += kAccumulators * kLanes) {
    for (int a = 0; a < kAccumulators; ++a) {
      const Floats next = load_lanes(values + i + a * kLanes);
      most[a] = next > most[a] ? next : most[a];
    }
  }
  float out = -std::numeric_limits<float>::infinity();
  for (const Floats& lanes : most) {
    for (int l = 0; l < kLanes; ++l) out = std::max(out, lanes[l]);
  }
  for (; i < count; ++i) out = std::max(out, values[i]);
  return out;
}

/// weights = exp(logits - max_logit) of one chunk; returns their sum.
double weigh_chunk(const float* logits, int64_t count, float max_logit, float* weights) {
  Floats sums[kAccumulators] = {};
  for (int64_t i = 0; i < count; i += kAccumulators * kLanes) {
    for (int a = 0; a < kAccumulators; ++a) {
      const Floats x = load_lanes(logits + i + a * kLanes) - max_logit;
      const auto is_zero = x < kLeast;
      const Floats weight = is_zero ? Floats{} : exp_of_negative(is_zero ? Floats{} : x);
      std::memcpy(weights + i + a * kLanes, &weight, sizeof(weight));
      sums[a] += weight;
    }
  }
  double total = 0;
  for (const Floats& lanes : sums) {
    for (int l = 0; l < kLanes; ++l) total += lanes[l];
  }
  return total;
}

}  // namespace

/// Equal intervals of logits from the largest down; kIntervals for tokens lighter than `lightest`.
struct Sampler::Intervals {
  float max_logit, scale, lightest;
  Integers of(Floats logits, Floats weights) const {
    const Integers interval = __builtin_convertvector((max_logit - logits) * scale, Integers);
    const Integers last = Integers{} + (kIntervals - 1);
    return weights >= lightest ? (interval < last ? interval : last) : Integers{} + kIntervals;
  }
};

Sampler::Sampler(const std::vector<int64_t>& pieces)
    : pieces_(pieces),
      vocab_size_(std::accumulate(pieces.begin(), pieces.end(), int64_t{0})),
      weights_((vocab_size_ + kChunk - 1) / kChunk * kChunk),
      chunk_totals_(weights_.size() / kChunk) {}

bool Sampler::load(float* logits_V, const SamplingConfig& sampling, bool greedy) {
  logits_ = logits_V;
  greedy_ = greedy || sampling.temperature == 0;
  const double temperature = sampling.temperature == 0 ? 1.0 : sampling.temperature;
  stats_.clear();
  int64_t first = 0;
  for (const int64_t piece : pieces_) {
    models::RowStats& stats = stats_.emplace_back();
    models::cpu_kernels().softmax_stats(logits_V + first, static_cast<float>(1.0 / temperature), 1, piece,
                                        &stats.lse, &stats.entropy);
    first += piece;
  }
  const models::RowStats row = models::merged(stats_);
  log_sum_exp_ = row.lse;
  entropy_ = row.entropy;
  if (!std::isfinite(log_sum_exp_) || !std::isfinite(entropy_)) return false;
  max_logit_ = largest(logits_V, vocab_size_);
  if (greedy_) return true;
  weigh();
  keep_most_likely(sampling);
  return true;
}

Sampler::Chunk Sampler::chunk_at(size_t chunk) {
  const size_t start = chunk * kChunk;
  return {chunk + 1 == chunk_totals_.size() ? last_logits_.data() : logits_ + start, &weights_[start]};
}

void Sampler::weigh() {
  const int64_t last = static_cast<int64_t>(chunk_totals_.size() - 1) * kChunk;
  last_logits_.fill(-std::numeric_limits<float>::infinity());
  std::copy(logits_ + last, logits_ + vocab_size_, last_logits_.begin());
  total_ = 0;
  for (size_t c = 0; c < chunk_totals_.size(); ++c) {
    const Chunk chunk = chunk_at(c);
    chunk_totals_[c] = weigh_chunk(chunk.logits, kChunk, max_logit_, chunk.weights);
    total_ += chunk_totals_[c];
  }
}

/// The k-th largest logit.
float Sampler::kth_largest(int64_t k) {
  chunk_maxima_.clear();
  for (int64_t start = 0; start < vocab_size_; start += kChunk)
    chunk_maxima_.push_back(largest(logits_ + start, std::min<int64_t>(kChunk, vocab_size_ - start)));
  const auto nth = [&] {
    std::nth_element(largest_.begin(), largest_.begin() + (k - 1), largest_.end(), std::greater<>());
    return largest_[k - 1];
  };
  // The k-th largest of the chunks' maxima bounds it from below: few logits are left to select from.
  float bound = -std::numeric_limits<float>::infinity();
  if (k <= static_cast<int64_t>(chunk_maxima_.size())) {
    largest_ = chunk_maxima_;
    bound = nth();
  }
  largest_.clear();
  for (size_t c = 0; c < chunk_maxima_.size(); ++c) {
    if (chunk_maxima_[c] < bound) continue;
    const auto start = static_cast<int64_t>(c) * kChunk, end = std::min(start + kChunk, vocab_size_);
    std::copy_if(logits_ + start, logits_ + end, std::back_inserter(largest_),
                 [&](float logit) { return logit >= bound; });
  }
  return nth();
}

/// Rules out the tokens of a smaller logit or weight; returns how many are left.
int64_t Sampler::rule_out(float least, float lightest) {
  const Floats ones = Floats{} + 1.0f;
  Floats left{};  // counts of a chunk stay exact in fp32
  // A chunk that weighs less has no such token.
  const double lightest_chunk = 0.999 * std::max<double>(lightest, std::exp(least - max_logit_));
  double count = 0;
  total_ = 0;
  for (size_t c = 0; c < chunk_totals_.size(); ++c) {
    if (chunk_totals_[c] < lightest_chunk) {
      chunk_totals_[c] = 0;
      continue;
    }
    const Chunk chunk = chunk_at(c);
    DoubleSum sum;
    for (int i = 0; i < kChunk; i += kLanes) {
      const Floats weight = load_lanes(chunk.weights + i);
      const auto stays = (load_lanes(chunk.logits + i) >= least) & (weight >= lightest);
      const Floats kept = stays ? weight : Floats{};
      store_lanes(kept, chunk.weights + i);
      left += stays ? ones : Floats{};
      sum.add(kept);
    }
    for (int l = 0; l < kLanes; ++l) count += left[l];
    left = Floats{};
    total_ += chunk_totals_[c] = sum.total();
  }
  return static_cast<int64_t>(count);
}

void Sampler::keep_most_likely(const SamplingConfig& sampling) {
  const bool has_top_k = sampling.top_k > 0 && sampling.top_k < vocab_size_;
  const auto min_p = static_cast<float>(sampling.min_p);  // the largest weight is 1
  int64_t count = vocab_size_;
  if (sampling.top_k > 0 || min_p > 0)
    count =
        rule_out(has_top_k ? kth_largest(sampling.top_k) : -std::numeric_limits<float>::infinity(), min_p);
  if (sampling.top_p < 1.0) keep_nucleus(sampling.top_p, count);
}

/// Of the `count` tokens that are left, the fewest of the largest that hold `share` of their weight. Only
/// those near the least of them are sorted: which these are is read off the weights of equal intervals of
/// logits.
void Sampler::keep_nucleus(double share, int64_t count) {
  const double wanted = share * total_;
  // All tokens lighter than this hold less than 1 - share together, so the nucleus has none of them.
  const float lightest = at_least((1.0 - share) * total_ / static_cast<double>(count));
  const Intervals intervals{max_logit_, (kIntervals - 1) / std::max(1e-30f, 1e-3f - std::log(lightest)),
                            lightest};
  // Behind the intervals what is lighter, dealt out so that no sum waits for the one before.
  std::array<double, kIntervals + kChunk> weights{};
  std::array<int32_t, kLanes> of;
  for (size_t c = 0; c < chunk_totals_.size(); ++c) {
    if (chunk_totals_[c] < 0.999 * lightest) continue;
    const Chunk chunk = chunk_at(c);
    for (int i = 0; i < kChunk; i += kLanes) {
      const Floats weight = load_lanes(chunk.weights + i);
      Integers interval = intervals.of(load_lanes(chunk.logits + i), weight);
      interval += interval == kIntervals ? Integers{0, 1, 2, 3} + i : Integers{};
      std::memcpy(of.data(), &interval, sizeof(interval));
      for (int l = 0; l < kLanes; ++l) weights[of[l]] += weight[l];
    }
  }
  int32_t last = 0;  // the interval in which the nucleus ends
  double above = 0;
  while (last < kIntervals - 1 && above + weights[last] < wanted) above += weights[last++];

  near_.clear();
  keep_above(intervals, last);
  std::sort(near_.begin(), near_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  // The interval is too light only by rounding, and then may be empty.
  for (size_t kept = 0; kept < near_.size() && ((last == 0 && kept == 0) || above < wanted); ++kept) {
    const auto [logit, token, weight] = near_[kept];
    above += weight;
    weights_[token] = weight;
    chunk_totals_[token / kChunk] += weight;
  }
  total_ = 0;
  for (const double chunk_total : chunk_totals_) total_ += chunk_total;
}

/// Rules out the tokens of interval `last` and below; those of it go to near_.
void Sampler::keep_above(const Intervals& intervals, int32_t last) {
  for (size_t c = 0; c < chunk_totals_.size(); ++c) {
    if (chunk_totals_[c] < 0.999 * intervals.lightest) {
      chunk_totals_[c] = 0;
      continue;
    }
    const Chunk chunk = chunk_at(c);
    DoubleSum sum;
    for (int i = 0; i < kChunk; i += kLanes) {
      const Floats weight = load_lanes(chunk.weights + i);
      const Integers interval = intervals.of(load_lanes(chunk.logits + i), weight);
      const Floats kept = interval < last ? weight : Floats{};
      const Integers near = interval == last;
      store_lanes(kept, chunk.weights + i);
      sum.add(kept);
      if (!any(near)) continue;
      for (int l = 0; l < kLanes; ++l)
        if (near[l])
          near_.push_back({chunk.logits[i + l], static_cast<int32_t>(c * kChunk) + i + l, weight[l]});
    }
    chunk_totals_[c] = sum.total();
  }
}

int32_t Sampler::choose(double uniform) const {
  double left = uniform * total_;
  size_t chunk = 0, last_filled = 0;
  for (; chunk < chunk_totals_.size() && left >= chunk_totals_[chunk]; ++chunk) {
    left -= chunk_totals_[chunk];
    if (chunk_totals_[chunk] > 0) last_filled = chunk;
  }
  // A chunk's total and the sum of its weights one by one round differently: past the end of either,
  // the answer is the last token that can be drawn there.
  if (chunk == chunk_totals_.size()) {
    chunk = last_filled;
    left = std::numeric_limits<double>::infinity();
  }
  size_t choice = chunk * kChunk;
  for (size_t i = chunk * kChunk; i < (chunk + 1) * kChunk; ++i) {
    if (weights_[i] > 0) choice = i;
    if (left < weights_[i]) break;
    left -= weights_[i];
  }
  return static_cast<int32_t>(choice);
}

SampledToken Sampler::draw(double uniform) const {
  SampledToken out;
  if (greedy_) {
    out.token = static_cast<int32_t>(std::find(logits_, logits_ + vocab_size_, max_logit_) - logits_);
  } else {
    out.token = choose(uniform);
  }
  out.log_prob = logits_[out.token] - log_sum_exp_;
  out.entropy = entropy_;
  return out;
}

}  // namespace trireme::rollout
