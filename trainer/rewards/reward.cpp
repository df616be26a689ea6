#include "trainer/rewards/reward.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/error.h"
#include "trainer/rewards/answer_rules.h"
#include "trainer/rewards/pattern.h"
#include "trainer/rewards/source_rules.h"
#include "trainer/sandbox/program_tests.h"

namespace trireme::rewards {
namespace {

std::string shortened(const std::string& text) {
  return text.size() > 80 ? "..." + text.substr(text.size() - 77) : text;
}

class RuleReward : public Reward {
 public:
  RuleReward(const AnswerRule& rule, const RewardConfig& config) : rule_(rule), config_(config) {
    if (!rule.in_response) pattern_.emplace(config.pattern);
  }

  Score score(const std::string& data_source, const std::string& response,
              const std::string& ground_truth) const override {
    const auto truth = rule_.in_ground_truth(ground_truth);
    if (!truth) fail(ErrorCode::invalid_config, "{}", ground_truth_mistake(data_source, ground_truth));
    const auto answer = find(response);
    Score score;
    score.has_format = answer.has_value();
    score.correct = answer && rule_.same(*answer, *truth);
    score.value = score.correct ? config_.correct : score.has_format ? config_.format_only : config_.wrong;
    if (answer) score.answer = rule_.vote(*answer);
    return score;
  }

  std::string ground_truth_mistake(const std::string&, const std::string& ground_truth) const override {
    if (rule_.in_ground_truth(ground_truth)) return {};
    return fmt::format("the answer '{}' cannot be used: reward.name = \"{}\" needs {}",
                       shortened(ground_truth), rule_.name, rule_.ground_truth);
  }

 private:
  std::optional<std::string> find(const std::string& response) const {
    if (!pattern_) return rule_.in_response(response);
    const auto found = pattern_->last_in(response);
    return found ? rule_.in_ground_truth(*found) : std::nullopt;
  }

  const AnswerRule& rule_;
  RewardConfig config_;
  std::optional<Pattern> pattern_;
};

class CodeReward : public Reward {
 public:
  Score score(const std::string& data_source, const std::string&, const std::string&) const override {
    fail(ErrorCode::internal, "programs of '{}' are judged by code_scorer", data_source);
  }
  std::string ground_truth_mistake(const std::string&, const std::string& ground_truth) const override {
    const auto tests = sandbox::read_tests(ground_truth);
    if (tests.mistake.empty()) return {};
    return fmt::format("the tests '{}' cannot be used: {}", shortened(ground_truth), tests.mistake);
  }
  bool judges_programs(const std::string&) const override { return true; }
};

// 0.9 for the answer in the box and 0.1 for thoughts before it, as verl judges this set.
class GeometryReward : public Reward {
 public:
  explicit GeometryReward(const RewardConfig& config) : answer_(*find_answer_rule("math_boxed"), config) {}

  Score score(const std::string& data_source, const std::string& response,
              const std::string& ground_truth) const override {
    Score score = answer_.score(data_source, response, ground_truth);
    score.value = (score.correct ? 0.9 : 0.0) + (thoughts_.matches(response) ? 0.1 : 0.0);
    return score;
  }
  std::string ground_truth_mistake(const std::string& data_source,
                                   const std::string& ground_truth) const override {
    return answer_.ground_truth_mistake(data_source, ground_truth);
  }

 private:
  RuleReward answer_;
  Pattern thoughts_{R"(<think>.*</think>.*\\boxed\{.*\}.*)"};
};

class NoReward : public Reward {
 public:
  Score score(const std::string&, const std::string&, const std::string&) const override { return {}; }
  std::string ground_truth_mistake(const std::string&, const std::string&) const override { return ""; }
};

class SourceReward : public Reward {
 public:
  explicit SourceReward(const RewardConfig& config) : config_(config) {
    for (const std::string& entry : config.sources)  // a wrong one is told at once, not at its first row
      if (const auto rule = rule_for_source(config, entry.substr(0, entry.rfind('='))))
        (void)make_reward(*rule);
  }

  Score score(const std::string& data_source, const std::string& response,
              const std::string& ground_truth) const override {
    const Reward* rule = rule_for(data_source);
    if (!rule) fail(ErrorCode::invalid_config, "{}", ground_truth_mistake(data_source, ground_truth));
    return rule->score(data_source, response, ground_truth);
  }
  std::string ground_truth_mistake(const std::string& data_source,
                                   const std::string& ground_truth) const override {
    if (const Reward* rule = rule_for(data_source))
      return rule->ground_truth_mistake(data_source, ground_truth);
    return fmt::format(
        "reward.name = \"by_source\" knows no rule for the data_source '{0}': add \"{0}=RULE\" to "
        "reward.sources",
        data_source);
  }
  bool judges_programs(const std::string& data_source) const override {
    const Reward* rule = rule_for(data_source);
    return rule && rule->judges_programs(data_source);
  }

 private:
  // Made when it is first asked for; null where there is none.
  const Reward* rule_for(const std::string& data_source) const {
    const std::lock_guard lock(mutex_);
    const auto found = rules_.find(data_source);
    if (found != rules_.end()) return found->second.get();
    const auto rule = rule_for_source(config_, data_source);
    return rules_.emplace(data_source, rule ? make_reward(*rule) : nullptr).first->second.get();
  }

  const RewardConfig config_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<Reward>> rules_;
};

}  // namespace

std::unique_ptr<Reward> make_reward(const RewardConfig& config) {
  if (const AnswerRule* rule = find_answer_rule(config.name))
    return std::make_unique<RuleReward>(*rule, config);
  if (config.name == "code") return std::make_unique<CodeReward>();
  if (config.name == "geometry3k") return std::make_unique<GeometryReward>(config);
  if (config.name == "by_source") return std::make_unique<SourceReward>(config);
  if (config.name == "none") return std::make_unique<NoReward>();
  const std::string meant = nearest(config.name, rule_names());
  fail(ErrorCode::invalid_config, "reward.name: there is no '{}'{}; there are {}", config.name,
       meant.empty() ? "" : fmt::format(", perhaps '{}' is meant", meant), fmt::join(rule_names(), ", "));
}

}  // namespace trireme::rewards
