// Answers: what a response says at its end, taken from it and compared with the ground truth by what it
// means, not by how it is written. Torch-free, thread-safe; the time of a comparison is bounded.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::answers {

/// Where a response's answer is looked for.
enum class AnswerPlace {
  boxed,    // in the last \boxed{...}
  anywhere  // there, or else behind "answer is" or "Answer:", or in the last formula, or the last number
};

/// The answer that a response gives, as it is written; nothing if there is none. Of a response with
/// </think> only what follows the last one is looked at.
std::optional<std::string> find_answer(std::string_view response, AnswerPlace place);

/// What stands in the last \boxed or \fbox; nothing if there is none, or it is not closed.
std::optional<std::string> last_boxed(std::string_view text);

/// The last number of a text, with its sign, as GSM8K's flexible rule takes it: "-1,234.5"; a point or comma
/// at its end is not part of it.
std::optional<std::string> last_number(std::string_view text);

/// Whether two answers mean the same: numbers by exact arithmetic (a decimal of six digits or more behind the
/// point also as the rounded value of the other), expressions as rational functions of their symbols or else
/// by their values; lists, sets, tuples, matrices, intervals and equations part by part; words regardless of
/// case. Units, currency and a percent sign may be left out. docs/rewards.md has the rules.
bool same_answer(std::string_view response, std::string_view truth);

/// An answer in one spelling, for counting votes: equal texts mean the same, if not the other way round.
std::string normal_answer(std::string_view answer);

}  // namespace trireme::answers
