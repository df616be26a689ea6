// Variants that hold back the few tokens whose advantage and probability rise together most: those that cost
// the policy its entropy.
#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "trainer/losses/policy_loss.h"

namespace trireme::losses {
namespace {

// (A - mean A)(log pi - mean log pi) of the tokens that count, with their places.
std::vector<std::pair<float, int64_t>> covariances(const PolicyTokens& tokens) {
  const at::Tensor mask = tokens.mask_N();
  const at::Tensor count = mask.sum().clamp_min(1.0);
  const auto centred = [&](const at::Tensor& x) { return x - (x * mask).sum() / count; };
  const at::Tensor products =
      (centred(tokens.advantages_N) * centred(tokens.log_probs_N.detach())).cpu().contiguous();
  const at::Tensor counts = mask.cpu();
  const float *product = products.const_data_ptr<float>(), *counted = counts.const_data_ptr<float>();
  std::vector<std::pair<float, int64_t>> result;
  for (int64_t i = 0; i < products.numel(); ++i)
    if (counted[i] > 0) result.emplace_back(product[i], i);
  return result;
}

int64_t share_of_tokens(double ratio, size_t tokens) {
  return std::max<int64_t>(1, static_cast<int64_t>(ratio * static_cast<double>(tokens)));
}

// true at the places of the first `count`.
at::Tensor marked(const PolicyTokens& tokens, const std::vector<std::pair<float, int64_t>>& chosen,
                  int64_t count) {
  std::vector<uint8_t> marks(static_cast<size_t>(tokens.log_probs_N.numel()), 0);
  for (int64_t i = 0; i < std::min<int64_t>(count, static_cast<int64_t>(chosen.size())); ++i)
    marks[static_cast<size_t>(chosen[static_cast<size_t>(i)].second)] = 1;
  return at::from_blob(marks.data(), {tokens.log_probs_N.numel()}, at::kByte)
      .to(at::kBool)
      .to(tokens.log_probs_N.device());
}

// SplitMix64's output function: a random key for each token.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

at::Tensor clip_cov_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics& metrics) {
  const at::Tensor ratio = at::exp(log_ratio(tokens));
  const at::Tensor losses = clipped_loss(tokens, ratio, config, metrics);
  const at::Tensor free = (losses <= -tokens.advantages_N * ratio).cpu();  // of the clip
  const bool* is_free = free.const_data_ptr<bool>();
  auto eligible = covariances(tokens);
  const int64_t count = share_of_tokens(config.clip_cov_ratio, eligible.size());
  std::erase_if(eligible, [&](const auto& one) {
    return !is_free[one.second] || one.first <= config.clip_cov_lb || one.first >= config.clip_cov_ub;
  });
  std::sort(eligible.begin(), eligible.end(), [&](const auto& a, const auto& b) {
    return mixed(tokens.seed ^ mixed(static_cast<uint64_t>(a.second))) <
           mixed(tokens.seed ^ mixed(static_cast<uint64_t>(b.second)));
  });
  const at::Tensor held = marked(tokens, eligible, count);
  metrics.clipped = share_of(tokens, held);
  return at::where(held, at::zeros_like(losses), losses);
}

at::Tensor kl_cov_loss(const PolicyTokens& tokens, const PolicyLossConfig& config, PolicyMetrics&) {
  const at::Tensor apart = log_ratio(tokens);
  const at::Tensor losses = -tokens.advantages_N * at::exp(apart);
  auto greatest = covariances(tokens);
  std::stable_sort(greatest.begin(), greatest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const at::Tensor held = marked(tokens, greatest, share_of_tokens(config.kl_cov_ratio, greatest.size()));
  return at::where(held, losses + config.ppo_kl_coef * apart.abs(), losses);
}

}  // namespace trireme::losses
