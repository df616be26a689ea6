#include "trainer/rewards/shaped_scorer.h"

#include <map>
#include <optional>
#include <utility>

#include "trainer/rewards/pattern.h"
#include "trainer/rewards/shaping.h"

namespace trireme::rewards {
namespace {

class ShapedScorer final : public Scorer {
 public:
  ShapedScorer(const RewardConfig& config, std::unique_ptr<Scorer> answer)
      : config_(config), answer_(std::move(answer)) {
    if (config.format.weight != 0 && !config.format.pattern.empty()) pattern_.emplace(config.format.pattern);
  }

  int64_t submit(Submission submission) override {
    Shape shape;
    shape.tokens = submission.response_tokens;
    if (config_.format.weight != 0)
      shape.format = (!pattern_ || pattern_->matches(submission.response)) &&
                     (config_.format.tags.empty() || has_tags(submission.response, config_.format.tags));
    if (config_.repetition.weight != 0)
      shape.repetition = repetition(submission.response, config_.repetition.ngram_size);
    const int64_t ticket = answer_->submit(std::move(submission));
    shapes_[ticket] = shape;
    return ticket;
  }

  Score wait(int64_t ticket) override {
    const Shape shape = shapes_.extract(ticket).mapped();
    Score score = answer_->wait(ticket);
    double sum = 0;
    const auto add = [&](const char* name, double weight, double value) {
      if (weight == 0) return;
      score.extras[name] = value;
      sum += weight * value;
    };
    add("answer", config_.weight, score.value);
    add("format", config_.format.weight, shape.format ? 1.0 : 0.0);
    add("repetition", config_.repetition.weight, shape.repetition);
    add("cosine", config_.cosine.weight,
        cosine_length(score.correct, shape.tokens, config_.cosine.max_tokens, config_.cosine));
    score.value = sum;
    return score;
  }

  bool is_judged(int64_t ticket) override { return answer_->is_judged(ticket); }
  void wait_until_ready() override { answer_->wait_until_ready(); }
  ScorerStats take_stats() override { return answer_->take_stats(); }

 private:
  struct Shape {
    int64_t tokens = 0;
    bool format = false;
    double repetition = 0;
  };

  const RewardConfig config_;
  const std::unique_ptr<Scorer> answer_;
  std::optional<Pattern> pattern_;
  std::map<int64_t, Shape> shapes_;
};

}  // namespace

bool is_shaped(const RewardConfig& config) {
  return config.weight != 1 || config.format.weight != 0 || config.repetition.weight != 0 ||
         config.cosine.weight != 0;
}

std::unique_ptr<Scorer> shaped_scorer(const RewardConfig& config, std::unique_ptr<Scorer> answer) {
  return std::make_unique<ShapedScorer>(config, std::move(answer));
}

}  // namespace trireme::rewards
