// The rules that judge by an answer: where each finds it, in a response and in a ground truth, and when two
// are the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::rewards {

struct AnswerRule {
  const char* name;
  const char* ground_truth;                                              // what it has to be
  std::optional<std::string> (*in_response)(std::string_view response);  // null: by reward.pattern
  std::optional<std::string> (*in_ground_truth)(std::string_view truth);
  bool (*same)(const std::string& answer, const std::string& truth);
  std::string (*vote)(std::string_view answer);  // the answer in one spelling, to be counted
};

/// Null if there is none of that name.
const AnswerRule* find_answer_rule(std::string_view name);

}  // namespace trireme::rewards
