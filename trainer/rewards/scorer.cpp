#include "trainer/rewards/scorer.h"

#include <map>
#include <utility>

#include "trainer/rewards/code_scorer.h"
#include "trainer/rewards/journaled_scorer.h"
#include "trainer/rewards/pool_scorer.h"
#include "trainer/rewards/shaped_scorer.h"
#include "trainer/rewards/source_rules.h"

namespace trireme::rewards {
namespace {

class RuleScorer final : public Scorer {
 public:
  explicit RuleScorer(const Reward& reward) : reward_(reward) {}

  int64_t submit(Submission submission) override {
    judged_.emplace(next_,
                    reward_.score(submission.data_source, submission.response, submission.ground_truth));
    return next_++;
  }
  Score wait(int64_t ticket) override { return judged_.extract(ticket).mapped(); }
  bool is_judged(int64_t) override { return true; }

 private:
  const Reward& reward_;
  std::map<int64_t, Score> judged_;
  int64_t next_ = 0;
};

// What a rule says of an answer is the same every time. What a program does may depend on the time that it has,
// and what is not ours on anything.
std::unique_ptr<Scorer> journaled(std::unique_ptr<Scorer> judge, const RewardConfig& config,
                                  const ScorerOptions& options) {
  if (options.journal.empty()) return judge;
  const std::string& replay = config.scorer.replay;
  return journaled_scorer(std::move(judge), options.journal, replay.empty() ? options.journal : replay,
                          options.writer);
}

// Answers to the rule, programs to the sandbox, which is made when the first one comes.
class SourceScorer final : public Scorer {
 public:
  SourceScorer(const RewardConfig& config, const Reward& rule, ScorerOptions options)
      : config_(config), rule_(rule), options_(std::move(options)), answers_(rule) {}

  int64_t submit(Submission submission) override {
    if (!rule_.judges_programs(submission.data_source)) return 2 * answers_.submit(std::move(submission));
    if (!programs_)
      programs_ = journaled(code_scorer(rule_for_source(config_, submission.data_source).value_or(config_)),
                            config_, options_);
    return 2 * programs_->submit(std::move(submission)) + 1;
  }
  Score wait(int64_t ticket) override {
    return ticket % 2 == 0 ? answers_.wait(ticket / 2) : programs_->wait(ticket / 2);
  }
  bool is_judged(int64_t ticket) override {
    return ticket % 2 == 0 ? answers_.is_judged(ticket / 2) : programs_->is_judged(ticket / 2);
  }
  ScorerStats take_stats() override { return programs_ ? programs_->take_stats() : ScorerStats{}; }

 private:
  const RewardConfig config_;
  const Reward& rule_;
  const ScorerOptions options_;
  RuleScorer answers_;
  std::unique_ptr<Scorer> programs_;
};

std::unique_ptr<Scorer> answer_scorer(const RewardConfig& config, const Reward& rule,
                                      ScorerOptions options) {
  if (runs_user_code(config)) return journaled(pool_scorer(config, options), config, options);
  if (config.name == "code") return journaled(code_scorer(config), config, options);
  if (config.name == "by_source") return std::make_unique<SourceScorer>(config, rule, std::move(options));
  return rule_scorer(rule);
}

}  // namespace

std::unique_ptr<Scorer> rule_scorer(const Reward& reward) {
  return std::make_unique<RuleScorer>(reward);
}

bool runs_user_code(const RewardConfig& config) {
  return !config.function.path.empty() || !config.command.empty() || !config.http.url.empty();
}

std::unique_ptr<Scorer> make_scorer(const RewardConfig& config, const Reward& rule, ScorerOptions options) {
  auto answer = answer_scorer(config, rule, std::move(options));
  return is_shaped(config) ? shaped_scorer(config, std::move(answer)) : std::move(answer);
}

}  // namespace trireme::rewards
