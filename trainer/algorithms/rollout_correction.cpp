#include "trainer/algorithms/rollout_correction.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme::algorithms {
namespace {

constexpr double kBound = 20.0;  // of log-ratios, so that their exponential stays finite

std::vector<std::string> parts_of(const std::string& text, char between) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(between, begin), text.size());
    std::string part = text.substr(begin, end - begin);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

double number_of(const std::string& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0))
    fail(ErrorCode::invalid_config,
         "algorithm.rollout_correction.rollout_rs_threshold: '{}' is not a number above 0", text);
  return value;
}

Rejection rejection_of(const std::string& name, const std::string& threshold) {
  Rejection result;
  using Over = Rejection::Over;
  bool known = false;
  for (const auto& [prefix, over] :
       {std::pair{"token_k", Over::token}, std::pair{"seq_sum_k", Over::seq_sum},
        std::pair{"seq_mean_k", Over::seq_mean}, std::pair{"seq_max_k", Over::seq_max}})
    for (int k = over == Over::seq_max ? 2 : 1; k <= 3; ++k)
      if (name == prefix + std::to_string(k)) {
        result.over = over;
        result.k = k;
        known = true;
      }
  if (!known)
    fail(ErrorCode::invalid_config,
         "algorithm.rollout_correction.rollout_rs: '{}' is unknown; there are token_k1, seq_sum_k1, "
         "seq_mean_k1, the same with k2 and k3, seq_max_k2 and seq_max_k3",
         name);
  const auto bounds = parts_of(threshold, '_');
  if (bounds.size() > (result.k == 1 ? 2U : 1U))
    fail(ErrorCode::invalid_config,
         "algorithm.rollout_correction.rollout_rs_threshold: '{}' holds {} bounds, {} takes {}", threshold,
         bounds.size(), name, result.k == 1 ? "LOWER_UPPER" : "one");
  result.upper = number_of(bounds.back());
  if (result.k == 1) {
    result.lower = bounds.size() == 2 ? number_of(bounds.front()) : 1.0 / result.upper;
    if (result.lower > result.upper)
      fail(ErrorCode::invalid_config,
           "algorithm.rollout_correction.rollout_rs_threshold: '{}' has its lower bound above the upper",
           threshold);
  }
  return result;
}

double log_ratio(float old, float rollout) {
  return std::clamp(static_cast<double>(old) - static_cast<double>(rollout), -kBound, kBound);
}

double statistic(double l, int k) {
  return k == 1 ? -l : k == 2 ? 0.5 * l * l : std::exp(l) - 1.0 - l;
}

bool keeps(double value, const Rejection& rejection) {
  return rejection.k == 1 ? value >= std::log(rejection.lower) && value <= std::log(rejection.upper)
                          : value <= rejection.upper;
}

}  // namespace

std::vector<Rejection> read_rejections(const std::string& names, const std::string& thresholds) {
  std::vector<Rejection> result;
  if (names.empty()) return result;
  const auto name = parts_of(names, ','), threshold = parts_of(thresholds, ',');
  if (threshold.size() != 1 && name.size() != threshold.size())
    fail(ErrorCode::invalid_config,
         "algorithm.rollout_correction.rollout_rs names {} criteria, rollout_rs_threshold {}: give one for "
         "each, or one for all",
         name.size(), threshold.size());
  for (size_t i = 0; i < name.size(); ++i)
    result.push_back(rejection_of(name[i], threshold[threshold.size() == 1 ? 0 : i]));
  return result;
}

void reject(std::span<const float> old, std::span<const float> rollout, std::span<const Rejection> rejections,
            std::vector<uint8_t>& mask) {
  using Over = Rejection::Over;
  const std::vector<uint8_t> before = mask;
  for (const Rejection& rejection : rejections) {
    double sum = 0.0, greatest = 0.0, tokens = 0.0;
    for (size_t t = 0; t < before.size(); ++t) {
      if (!before[t]) continue;
      const double value = statistic(log_ratio(old[t], rollout[t]), rejection.k);
      if (rejection.over == Over::token && !keeps(value, rejection)) mask[t] = 0;
      sum += value;
      greatest = std::max(greatest, value);
      tokens += 1.0;
    }
    if (rejection.over == Over::token || tokens == 0) continue;
    const double whole = rejection.over == Over::seq_sum    ? sum
                         : rejection.over == Over::seq_mean ? sum / tokens
                                                            : greatest;
    if (!keeps(whole, rejection)) std::fill(mask.begin(), mask.end(), 0);
  }
}

std::vector<float> importance_weights(std::span<const float> old, std::span<const float> rollout,
                                      std::span<const uint8_t> mask, const RolloutCorrection& config) {
  if (!config.weighs()) return {};
  double whole = 0.0;
  if (config.rollout_is == "sequence") {
    for (size_t t = 0; t < mask.size(); ++t)
      if (mask[t]) whole += static_cast<double>(old[t]) - static_cast<double>(rollout[t]);
    whole = std::clamp(whole, -kBound, kBound);
  }
  std::vector<float> weights;
  for (size_t t = 0; t < mask.size(); ++t) {
    const double weight = std::exp(config.rollout_is == "sequence" ? whole : log_ratio(old[t], rollout[t]));
    const bool masked = config.rollout_is_threshold_low > 0;
    const bool outside = weight > config.rollout_is_threshold || weight < config.rollout_is_threshold_low;
    weights.push_back(static_cast<float>(masked ? (outside ? 0.0 : weight)
                                                : std::min(weight, config.rollout_is_threshold)));
  }
  return weights;
}

}  // namespace trireme::algorithms
