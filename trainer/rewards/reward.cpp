#include "trainer/rewards/reward.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "trainer/rewards/answer_number.h"

namespace trireme::rewards {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kAnswerMark = "####";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string with_single_spaces(std::string_view text) {
  std::string result;
  for (const char c : trimmed(text)) {
    const bool space = kSpace.find(c) != std::string_view::npos;
    if (!space) result.push_back(c);
    if (space && result.back() != ' ') result.push_back(' ');
  }
  return result;
}

/// A kind of answer: how it is read from a response, and from the ground truth.
struct AnswerForm {
  const char* name;
  const char* ground_truth;  // what it has to be
  std::optional<std::string> (*in_response)(std::string_view response);
  std::optional<std::string> (*in_ground_truth)(std::string_view truth);
};

std::optional<std::string> gsm8k_answer(std::string_view response) {
  const size_t mark = response.rfind(kAnswerMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const auto rest = response.substr(mark + kAnswerMark.size());
  return leading_number(rest.substr(0, rest.find('\n')));
}

std::optional<std::string> gsm8k_truth(std::string_view truth) {
  return truth.find(kAnswerMark) != std::string_view::npos ? gsm8k_answer(truth)
                                                           : leading_number(trimmed(truth));
}

std::optional<std::string> text_answer(std::string_view text) {
  auto answer = with_single_spaces(text);
  if (answer.empty()) return std::nullopt;
  return answer;
}

std::optional<std::string> arithmetic_answer(std::string_view response) {
  const size_t mark = response.find_last_of("=;:");
  if (mark == std::string_view::npos) return std::nullopt;
  return whole_number(trimmed(response.substr(mark + 1)));
}

std::optional<std::string> arithmetic_truth(std::string_view truth) {
  return whole_number(trimmed(truth.substr(truth.find_last_of("=;:") + 1)));  // npos + 1 is 0
}

constexpr AnswerForm kForms[] = {
    {"gsm8k", "a number, alone or after the last ####", gsm8k_answer, gsm8k_truth},
    {"exact_match", "a text that is not blank", text_answer, text_answer},
    {"arithmetic", "a whole number", arithmetic_answer, arithmetic_truth},
};

class RuleReward : public Reward {
 public:
  RuleReward(const AnswerForm& form, const RewardConfig& config) : form_(form), config_(config) {}

  Score score(const std::string& /*data_source*/, const std::string& response,
              const std::string& ground_truth) const override {
    const auto truth = form_.in_ground_truth(ground_truth);
    if (!truth) fail(ErrorCode::invalid_config, "{}", ground_truth_mistake(ground_truth));
    const auto answer = form_.in_response(response);
    Score score;
    score.has_format = answer.has_value();
    score.correct = answer == truth;
    score.value = score.correct ? config_.correct : score.has_format ? config_.format_only : config_.wrong;
    return score;
  }

  std::string ground_truth_mistake(const std::string& ground_truth) const override {
    if (form_.in_ground_truth(ground_truth)) return {};
    const std::string shown =
        ground_truth.size() > 80 ? "..." + ground_truth.substr(ground_truth.size() - 77) : ground_truth;
    return fmt::format("the answer '{}' cannot be used: reward.name = \"{}\" needs {}", shown, form_.name,
                       form_.ground_truth);
  }

 private:
  const AnswerForm& form_;
  RewardConfig config_;
};

}  // namespace

std::unique_ptr<Reward> make_reward(const RewardConfig& config) {
  std::vector<std::string> names;
  for (const AnswerForm& form : kForms) {
    if (config.name == form.name) return std::make_unique<RuleReward>(form, config);
    names.emplace_back(form.name);
  }
  const std::string meant = nearest(config.name, names);
  fail(ErrorCode::invalid_config, "reward.name: there is no '{}'{}; there are {}", config.name,
       meant.empty() ? "" : fmt::format(", perhaps '{}' is meant", meant), fmt::join(names, ", "));
}

}  // namespace trireme::rewards
