// How a response is judged by its answer: pure functions of the response and the ground truth. Torch-free,
// thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/rewards/reward_config.h"
#include "trainer/rewards/score.h"

namespace trireme::rewards {

class Reward {
 public:
  virtual ~Reward() = default;
  /// Throws invalid_config if `ground_truth` is not usable (see ground_truth_mistake).
  virtual Score score(const std::string& data_source, const std::string& response,
                      const std::string& ground_truth) const = 0;
  /// What is wrong with a ground truth, or with its source, or "": for checking data before a run.
  virtual std::string ground_truth_mistake(const std::string& data_source,
                                           const std::string& ground_truth) const = 0;
  /// Whether responses of this source are programs, which score() does not judge but code_scorer.
  virtual bool judges_programs(const std::string& /*data_source*/) const { return false; }
};

/// gsm8k: the number after the last "####" of the response, in the same line, compared exactly as a decimal.
///   Around it may stand currency signs and codes, emphasis and units ("#### **$1,234.50** per month.");
///   digits may be grouped by commas; minus may be '-' or U+2212. Without "####", or where what follows is no
///   plain number (a fraction, a range, a calculation, an exponent, two numbers), has_format is false. The
///   ground truth is a number, or a GSM8K solution that ends in "#### NUMBER". Unlike verl's strict method:
///   numbers are compared by value ("18.0" is 18), not by spelling; a last "####" that nothing follows is not
///   passed over; the whole response is looked at, not its last 300 characters.
/// gsm8k_flexible: the last number of the response, likewise.
/// math: what answers/answer.h finds anywhere in the response, and takes for the same. math_boxed: in \boxed
/// alone. math_answer: behind the last "Answer:", up to the end of its line (DAPO's data). exact_match:
/// response and ground truth are equal once white space is trimmed and runs of it count as one
///   space. has_format: the response is not blank.
/// regex: likewise what the first group of reward.pattern holds in its last match (without groups, the
/// match). qa: the text between the last <answer> tags, without case, punctuation and articles; the ground
/// truth is a text, a
///   JSON list of texts, or {"target": ...} of those, any of which will do (Search-R1's data).
/// arithmetic: the whole number that ends the response, after the last '=', ';' or ':' and spaces; white
/// space may
///   follow it. Compared exactly, with any number of digits. The ground truth is a whole number, alone or so
///   preceded.
/// code: programs and tests; see sandbox/program_tests.h.
/// by_source: what source_rules.h says for each row's data_source.
/// none: every response is worth 0, whatever the ground truth.
/// Throws invalid_config for another name, and for a pattern that is none.
std::unique_ptr<Reward> make_reward(const RewardConfig& config);

}  // namespace trireme::rewards
