// A bandit whose optimum is known, solved by every estimator and every loss: three prompts, answered by two
// tokens of four, each of which is worth something of its own. The policy and the critic are tables, learned
// by their losses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include "trainer/algorithms/estimators.h"
#include "trainer/algorithms/rejection_sampling.h"
#include "trainer/losses/aggregation.h"
#include "trainer/losses/policy_loss.h"
#include "trainer/losses/value_loss.h"

namespace trireme::algorithms {
namespace {

constexpr int kPrompts = 3, kTokens = 2, kArms = 4, kResponses = 8;

double worth(int prompt, int place, int64_t arm) {
  return static_cast<double>((arm * 3 + prompt + 2 * place) % kArms) / kArms;  // 0, 1/4, 1/2 or 3/4
}
constexpr double kOptimum = kTokens * 0.75;

class Bandit {
 public:
  explicit Bandit(const Estimator& estimator) : estimator_(estimator) {
    logits_ = at::zeros({kPrompts * kTokens, kArms}, at::kFloat).requires_grad_(true);
    values_ = at::zeros({kPrompts * kTokens}, at::kFloat).requires_grad_(true);
  }

  /// Of the best of `tries` responses to a prompt, exactly.
  double expected_best(int tries) const {
    const at::Tensor probabilities = at::softmax(logits_.detach(), 1);
    double sum = 0.0;
    for (int prompt = 0; prompt < kPrompts; ++prompt) {
      std::map<double, double> chances;  // of a response's reward
      for (int first = 0; first < kArms; ++first)
        for (int second = 0; second < kArms; ++second)
          chances[worth(prompt, 0, first) + worth(prompt, 1, second)] +=
              probabilities[prompt * kTokens][first].item<double>() *
              probabilities[prompt * kTokens + 1][second].item<double>();
      double below = 0.0;  // chance of a reward up to here
      for (const auto& [reward, chance] : chances) {
        sum += reward * (std::pow(below + chance, tries) - std::pow(below, tries));
        below += chance;
      }
    }
    return sum / kPrompts;
  }

  double value(int prompt, int place) const { return values_[prompt * kTokens + place].item<double>(); }

  void step(const losses::PolicyLossConfig& loss, uint64_t seed) {
    sample();
    estimate();
    losses::PolicyTokens tokens;
    const auto count = static_cast<int64_t>(rows_.size());
    tokens.old_log_probs_N = log_probs().detach();
    tokens.advantages_N = at::from_blob(advantages_.data(), {count}, at::kFloat).clone();
    const losses::BatchTotals totals{kPrompts * kResponses, count, kTokens};
    tokens.weights_N =
        at::zeros({count}, at::kFloat) + losses::token_weight(losses::aggregation_of(loss), kTokens, totals);
    tokens.shares_N = at::zeros({count}, at::kFloat) + 1.0 / static_cast<double>(count);
    tokens.lengths_S = at::zeros({kPrompts * kResponses}, at::kLong) + kTokens;
    tokens.seed = seed;
    losses::ValueTokens values;
    values.old_values_N = state_values().detach();
    values.returns_N = at::from_blob(returns_.data(), {count}, at::kFloat).clone();
    values.weights_N = values.shares_N = tokens.shares_N;
    for (int epoch = 0; epoch < 2; ++epoch) {
      tokens.log_probs_N = log_probs();
      losses::policy_loss(tokens, loss).loss.backward();
      logits_.detach().sub_(logits_.grad(), 2.0);
      logits_.mutable_grad().zero_();
      values.values_N = state_values();
      losses::value_loss(values, 0.5).loss.backward();
      values_.detach().sub_(values_.grad(), 1.0);
      values_.mutable_grad().zero_();
    }
  }

  // A round of rejection sampling: what is right is learned, each response once.
  void fine_tune() {
    sample();
    std::vector<int64_t> rows, arms;
    for (int prompt = 0; prompt < kPrompts; ++prompt) {
      std::vector<std::vector<int32_t>> said(kResponses);
      std::vector<Attempt> attempts;
      const size_t first = static_cast<size_t>(prompt) * kResponses * kTokens;
      for (size_t response = 0; response < kResponses; ++response) {
        double reward = 0.0;
        for (int place = 0; place < kTokens; ++place) {
          said[response].push_back(static_cast<int32_t>(arms_[first + response * kTokens + place]));
          reward += worth(prompt, place, said[response].back());
        }
        attempts.push_back({said[response], reward >= kOptimum});
      }
      for (const size_t kept : select_accepted(attempts, 4, true).kept)
        for (int place = 0; place < kTokens; ++place) {
          rows.push_back(prompt * kTokens + place);
          arms.push_back(said[kept][static_cast<size_t>(place)]);
        }
    }
    if (rows.empty()) return;
    rows_ = std::move(rows);
    arms_ = std::move(arms);
    (-log_probs().mean()).backward();
    logits_.detach().sub_(logits_.grad(), 2.0);
    logits_.mutable_grad().zero_();
  }

 private:
  void sample() {
    const at::Tensor probabilities = at::softmax(logits_.detach(), 1);
    rows_.clear();
    arms_.clear();
    for (int prompt = 0; prompt < kPrompts; ++prompt)
      for (int response = 0; response < kResponses; ++response)
        for (int place = 0; place < kTokens; ++place) {
          const int row = prompt * kTokens + place;
          double left = static_cast<double>(random_() >> 11) * 0x1p-53;
          int64_t arm = 0;
          while (arm + 1 < kArms && (left -= probabilities[row][arm].item<double>()) >= 0) ++arm;
          rows_.push_back(row);
          arms_.push_back(arm);
        }
  }

  void estimate() {
    const at::Tensor greedy = logits_.detach().argmax(1);
    std::vector<std::vector<Trajectory>> groups(kPrompts);
    std::vector<BatchStatistics> statistics;
    size_t at = 0;
    for (int prompt = 0; prompt < kPrompts; ++prompt) {
      for (int response = 0; response < kResponses; ++response) {
        Trajectory& one = groups[prompt].emplace_back();
        for (int place = 0; place < kTokens; ++place, ++at) {
          one.rewards.push_back(worth(prompt, place, arms_[at]));
          one.reward += one.rewards.back();
          one.greedy_reward += worth(prompt, place, greedy[prompt * kTokens + place].item<int64_t>());
          one.values.push_back(values_[prompt * kTokens + place].item<double>());
        }
        one.mask.assign(kTokens, 1);
      }
      estimator_.of_group(groups[prompt], {});
      statistics.push_back(statistics_of(prompt, groups[prompt]));
    }
    advantages_.clear();
    returns_.clear();
    for (int prompt = 0; prompt < kPrompts; ++prompt) {
      if (estimator_.over_batch) estimator_.over_batch(groups[prompt], merge(statistics));
      for (const Trajectory& one : groups[prompt])
        for (int place = 0; place < kTokens; ++place) {
          advantages_.push_back(static_cast<float>(one.advantages[place]));
          returns_.push_back(static_cast<float>(one.returns[place]));
        }
    }
  }

  at::Tensor log_probs() {
    const auto count = static_cast<int64_t>(rows_.size());
    const at::Tensor rows = at::from_blob(rows_.data(), {count}, at::kLong);
    const at::Tensor arms = at::from_blob(arms_.data(), {count, 1}, at::kLong);
    return at::log_softmax(logits_, 1).index_select(0, rows).gather(1, arms).squeeze(1);
  }

  at::Tensor state_values() {
    const at::Tensor rows = at::from_blob(rows_.data(), {static_cast<int64_t>(rows_.size())}, at::kLong);
    return values_.index_select(0, rows);
  }

  const Estimator& estimator_;
  std::mt19937_64 random_{7};
  at::Tensor logits_, values_;
  std::vector<int64_t> rows_, arms_;
  std::vector<float> advantages_, returns_;
};

void expect_solved(const std::string& estimator, const losses::PolicyLossConfig& loss, int tries = 1) {
  Bandit bandit(find_estimator(estimator));
  EXPECT_LT(bandit.expected_best(tries), 0.9 * kOptimum);
  for (int step = 0; step < 150; ++step) bandit.step(loss, static_cast<uint64_t>(step));
  EXPECT_GT(bandit.expected_best(tries), 0.95 * kOptimum) << estimator << ", " << loss.loss_mode;
}

TEST(Bandit, IsSolvedByEveryEstimator) {
  for (const Estimator& estimator : estimators()) {
    const std::string name = estimator.name;
    expect_solved(name, {}, name == "grpo_passk" ? kResponses : 1);  // pass@k wants the best of k to be good
  }
}

TEST(Bandit, IsSolvedByRejectionSampling) {
  Bandit bandit(find_estimator("grpo"));  // which is not asked
  EXPECT_LT(bandit.expected_best(1), 0.9 * kOptimum);
  for (int round = 0; round < 150; ++round) bandit.fine_tune();
  EXPECT_GT(bandit.expected_best(1), 0.95 * kOptimum);
}

// The critic has learned what each state is worth under the policy that solves it.
TEST(Bandit, PpoKnowsWhatItsStatesAreWorth) {
  Bandit bandit(find_estimator("gae"));
  for (int step = 0; step < 300; ++step) bandit.step({}, static_cast<uint64_t>(step));
  for (int prompt = 0; prompt < kPrompts; ++prompt) {
    EXPECT_NEAR(bandit.value(prompt, 0), kOptimum, 0.1);
    EXPECT_NEAR(bandit.value(prompt, 1), kOptimum / kTokens, 0.1);
  }
}

TEST(Bandit, IsSolvedByEveryLoss) {
  for (const char* mode : losses::kLossModes) {
    losses::PolicyLossConfig loss;
    loss.loss_mode = mode;
    expect_solved("grpo", loss);
  }
}

TEST(Bandit, IsSolvedWithEveryAggregation) {
  for (const char* mode :
       {"token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    losses::PolicyLossConfig loss;
    loss.loss_agg_mode = mode;
    expect_solved("rloo", loss);
  }
}

}  // namespace
}  // namespace trireme::algorithms
