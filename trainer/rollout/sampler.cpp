#include "trainer/rollout/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>

#include "trainer/models/cpu_kernels.h"

namespace trireme::rollout {
namespace {

// Vectors of 4, which every machine has. Sums run in 4 such accumulators within chunks of 64, and chunks
// are added in order in fp64: one fixed order.
constexpr int kLanes = 4;
constexpr int kAccumulators = 4;
constexpr int kChunk = 64;
constexpr float kLeast = -87.0f;  // exp() below this is taken for 0

// The compilers' vector types; the arithmetic is elementwise and exactly that of floats.
using Floats [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Bits [[gnu::vector_size(kLanes * sizeof(float))]] = uint32_t;

inline Floats load_lanes(const float* from) {
  Floats out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}

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
double weigh_chunk(const float* logits, float max_logit, float* weights) {
  Floats sums[kAccumulators] = {};
  for (int i = 0; i < kChunk; i += kAccumulators * kLanes) {
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

Sampler::Sampler(int64_t vocab_size)
    : vocab_size_(vocab_size),
      weights_((vocab_size + kChunk - 1) / kChunk * kChunk),
      chunk_totals_(weights_.size() / kChunk) {}

bool Sampler::load(float* logits_V, const SamplingConfig& sampling, bool greedy) {
  logits_ = logits_V;
  greedy_ = greedy || sampling.temperature == 0;
  const double temperature = sampling.temperature == 0 ? 1.0 : sampling.temperature;
  models::cpu_kernels().softmax_stats(logits_V, static_cast<float>(1.0 / temperature), 1, vocab_size_,
                                      &log_sum_exp_, &entropy_);
  if (!std::isfinite(log_sum_exp_) || !std::isfinite(entropy_)) return false;
  max_logit_ = largest(logits_V, vocab_size_);
  if (greedy_) return true;
  weigh();
  filtered_ = sampling.top_k > 0 || sampling.top_p < 1.0 || sampling.min_p > 0;
  if (filtered_) keep_most_likely(sampling);
  return true;
}

void Sampler::weigh() {
  total_ = 0;
  for (size_t c = 0; c < chunk_totals_.size(); ++c) {
    const int64_t start = static_cast<int64_t>(c) * kChunk;
    const float* logits = logits_ + start;
    float last[kChunk];
    if (start + kChunk > vocab_size_) {
      std::fill_n(last, kChunk, -std::numeric_limits<float>::infinity());
      std::copy(logits, logits_ + vocab_size_, last);
      logits = last;
    }
    chunk_totals_[c] = weigh_chunk(logits, max_logit_, &weights_[start]);
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
  visit(bound, 0, [&](int64_t i) { largest_.push_back(logits_[i]); });
  return nth();
}

/// Calls `take` for the tokens with at least that logit and that weight, in order; not for whole chunks of
/// others. Of the logits only after kth_largest().
template <typename Take>
void Sampler::visit(float least, double lightest, Take&& take) const {
  const bool by_logit = least > -std::numeric_limits<float>::infinity();
  for (size_t c = 0; c < chunk_totals_.size(); ++c) {
    if (chunk_totals_[c] < lightest || (by_logit && chunk_maxima_[c] < least)) continue;
    const auto start = static_cast<int64_t>(c) * kChunk, end = std::min(start + kChunk, vocab_size_);
    for (int64_t i = start; i < end; ++i) {
      if (logits_[i] >= least && weights_[i] >= lightest) take(i);
    }
  }
}

void Sampler::keep_most_likely(const SamplingConfig& sampling) {
  const bool has_top_k = sampling.top_k > 0 && sampling.top_k < vocab_size_;
  const float least = has_top_k ? kth_largest(sampling.top_k) : -std::numeric_limits<float>::infinity();
  const auto min_p = static_cast<float>(sampling.min_p);  // the largest weight is 1
  double total = total_, count = static_cast<double>(vocab_size_);
  if (has_top_k || min_p > 0) {
    total = count = 0;
    visit(least, min_p, [&](int64_t i) {
      total += weights_[i];
      ++count;
    });
  }
  // All tokens lighter than this hold less than 1 - p together, so the nucleus has none of them.
  const double lightest = std::max<double>(min_p, (1.0 - sampling.top_p) * total / count);
  candidates_.clear();
  visit(least, lightest, [&](int64_t i) {
    if (weights_[i] > 0) candidates_.push_back({logits_[i], static_cast<int32_t>(i), weights_[i]});
  });
  candidates_total_ = total;
  if (sampling.top_p < 1.0) keep_nucleus(sampling.top_p * total);
}

/// Of the candidates the fewest of the largest that weigh `wanted` together. Only those near the least of
/// them are sorted: which these are is read off the weights of equal intervals of logits.
void Sampler::keep_nucleus(double wanted) {
  constexpr int kIntervals = 1024;
  float lowest = max_logit_;
  for (const Candidate& c : candidates_) lowest = std::min(lowest, c.logit);
  const float scale = lowest < max_logit_ ? (kIntervals - 1) / (max_logit_ - lowest) : 0.0f;
  const auto interval_of = [&](float logit) { return static_cast<int>((max_logit_ - logit) * scale); };
  std::array<double, kIntervals> weights{};
  for (const Candidate& c : candidates_) weights[interval_of(c.logit)] += c.weight;

  int last = 0;  // the interval in which the nucleus ends
  double above = 0;
  while (last < kIntervals - 1 && above + weights[last] < wanted) above += weights[last++];
  near_.clear();
  for (const Candidate& c : candidates_) {
    if (interval_of(c.logit) == last) near_.push_back(c);
  }
  std::sort(near_.begin(), near_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  size_t kept = 0;
  while (kept < near_.size() && ((last == 0 && kept == 0) || above < wanted)) above += near_[kept++].weight;
  // The interval is too light only by rounding, and then may be empty.
  const float least = kept > 0 ? near_[kept - 1].logit : -std::numeric_limits<float>::infinity();
  const int32_t last_token = kept > 0 ? near_[kept - 1].token : 0;

  candidates_total_ = 0;
  std::erase_if(candidates_, [&](const Candidate& c) {
    const bool keep = c.logit > least || (c.logit == least && c.token <= last_token);
    if (keep) candidates_total_ += c.weight;
    return !keep;
  });
}

int32_t Sampler::choose_candidate(double uniform) const {
  double left = uniform * candidates_total_;
  for (const Candidate& candidate : candidates_) {
    if (left < candidate.weight) return candidate.token;
    left -= candidate.weight;
  }
  return candidates_.back().token;  // rounding at the very end of the range
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
  if (chunk == chunk_totals_.size()) chunk = last_filled;
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
    out.token = filtered_ ? choose_candidate(uniform) : choose(uniform);
  }
  out.log_prob = logits_[out.token] - log_sum_exp_;
  out.entropy = entropy_;
  return out;
}

}  // namespace trireme::rollout
