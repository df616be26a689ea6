// How a response is judged: pure functions of the response and the ground truth. Torch-free, thread-safe.
#pragma once

#include <memory>
#include <string>

#include "trainer/rewards/reward_config.h"

namespace trireme::rewards {

struct Score {
  double value = 0;         // the reward
  bool correct = false;     // implies has_format
  bool has_format = false;  // the response holds an answer in the form that the reward looks for
};

class Reward {
 public:
  virtual ~Reward() = default;
  /// Throws invalid_config if `ground_truth` is not usable (see ground_truth_mistake).
  virtual Score score(const std::string& data_source, const std::string& response,
                      const std::string& ground_truth) const = 0;
  /// What is wrong with a ground truth, or "": for checking data before a run.
  virtual std::string ground_truth_mistake(const std::string& ground_truth) const = 0;
};

/// gsm8k: the number after the last "####" of the response, in the same line, compared exactly as a decimal.
///   Around it may stand currency signs and codes, emphasis and units ("#### **$1,234.50** per month.");
///   digits may be grouped by commas; minus may be '-' or U+2212. Without "####", or where what follows is no
///   plain number (a fraction, a range, a calculation, an exponent, two numbers), has_format is false. The
///   ground truth is a number, or a GSM8K solution that ends in "#### NUMBER". Unlike verl's strict method:
///   numbers are compared by value ("18.0" is 18), not by spelling; a last "####" that nothing follows is not
///   passed over; the whole response is looked at, not its last 300 characters.
/// exact_match: response and ground truth are equal once white space is trimmed and runs of it count as one
/// space.
///   has_format: the response is not blank.
/// arithmetic: the whole number that ends the response, after the last '=', ';' or ':' and spaces; white
/// space may
///   follow it. Compared exactly, with any number of digits. The ground truth is a whole number, alone or so
///   preceded.
/// Throws invalid_config for another name.
std::unique_ptr<Reward> make_reward(const RewardConfig& config);

}  // namespace trireme::rewards
