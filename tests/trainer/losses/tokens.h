// Response tokens for tests: plain numbers to what a loss is given.
#pragma once

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include "trainer/losses/aggregation.h"
#include "trainer/losses/policy_loss.h"

namespace trireme::losses {

inline at::Tensor tensor(std::vector<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat).clone();
}

/// One response of all tokens unless `lengths` say otherwise, weighed by `mode`; the log-probabilities ask
/// for a gradient. An empty mask is all ones.
inline PolicyTokens tokens_of(const std::vector<float>& fresh, const std::vector<float>& old,
                              const std::vector<float>& advantages, std::vector<int64_t> lengths = {},
                              std::vector<float> mask = {}, const std::string& mode = "token-mean",
                              int64_t scale = 1) {
  if (lengths.empty()) lengths = {static_cast<int64_t>(fresh.size())};
  if (mask.empty()) mask.assign(fresh.size(), 1.0F);
  BatchTotals totals;
  totals.scale = scale;
  std::vector<int64_t> counted;
  size_t at = 0;
  for (const int64_t length : lengths) {
    int64_t count = 0;
    for (int64_t t = 0; t < length; ++t) count += mask[at++] > 0 ? 1 : 0;
    counted.push_back(count);
    totals.tokens += count;
    totals.sequences += count > 0 ? 1 : 0;
  }
  std::vector<float> weights, shares;
  at = 0;
  for (size_t i = 0; i < lengths.size(); ++i)
    for (int64_t t = 0; t < lengths[i]; ++t, ++at) {
      const bool counts = mask[at] > 0;
      weights.push_back(counts ? static_cast<float>(token_weight(mode, counted[i], totals)) : 0.0F);
      shares.push_back(counts ? 1.0F / static_cast<float>(totals.tokens) : 0.0F);
    }
  PolicyTokens result;
  result.log_probs_N = tensor(fresh).requires_grad_(true);
  result.old_log_probs_N = tensor(old);
  result.advantages_N = tensor(advantages);
  result.weights_N = tensor(weights);
  result.shares_N = tensor(shares);
  result.lengths_S = at::from_blob(lengths.data(), {static_cast<int64_t>(lengths.size())}, at::kLong).clone();
  return result;
}

}  // namespace trireme::losses
