#include "trainer/rewards/source_rules.h"

#include <array>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme::rewards {
namespace {

struct SourceRule {
  std::string_view source;  // a * at its end stands for any text
  const char* rule;
  double wrong = 0.0;
};

constexpr std::array<SourceRule, 14> kSources = {{
    {"openai/gsm8k", "gsm8k"},
    {"lighteval/MATH", "math_boxed"},
    {"DigitalLearningGmbH/MATH-lighteval", "math_boxed"},
    {"HuggingFaceH4/MATH-500", "math_boxed"},
    {"math_dapo", "math_answer", -1.0},
    {"math", "math_answer", -1.0},
    {"math_dapo_reasoning", "math_answer", -1.0},
    {"aime*", "math_answer", -1.0},
    {"numina_*", "math"},
    {"codecontests", "code"},
    {"apps", "code"},
    {"codeforces", "code"},
    {"taco", "code"},
    {"searchR1_*", "qa"},
}};

bool is_meant(std::string_view pattern, std::string_view source) {
  return pattern.ends_with('*') ? source.starts_with(pattern.substr(0, pattern.size() - 1))
                                : source == pattern;
}

}  // namespace

std::optional<RewardConfig> rule_for_source(const RewardConfig& config, const std::string& data_source) {
  RewardConfig own = config;
  own.name.clear();
  for (const std::string& entry : config.sources) {
    const size_t equals = entry.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == entry.size())
      fail(ErrorCode::invalid_config, "reward.sources: '{}' is not of the form SOURCE=RULE", entry);
    if (is_meant(std::string_view(entry).substr(0, equals), data_source)) {
      own.name = entry.substr(equals + 1);
      return own;
    }
  }
  for (const SourceRule& rule : kSources) {
    if (!is_meant(rule.source, data_source)) continue;
    own.name = rule.rule;
    own.correct = 1.0;
    own.wrong = own.format_only = rule.wrong;
    own.code.scoring = "fraction";
    return own;
  }
  if (data_source == "hiyouga/geometry3k") {
    own.name = "geometry3k";
    return own;
  }
  return std::nullopt;
}

}  // namespace trireme::rewards
