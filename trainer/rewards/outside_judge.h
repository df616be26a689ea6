// Whoever judges responses outside of this program: processes of a pool, or a service.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "trainer/rewards/scorer.h"

namespace trireme::rewards {

/// What became of a response.
struct Outcome {
  double score = 0.0;
  std::map<std::string, double> extras;
  std::string answer;   // to vote with: "pred"; empty: none
  std::string failure;  // empty: none
  int64_t attempts = 0;  // that failed, where it did for good
};

/// The score of an answer and all numbers beside it; nothing if there is no score.
std::optional<Outcome> outcome_of(const nlohmann::json& answer);

class OutsideJudge {
 public:
  virtual ~OutsideJudge() = default;
  /// `request`: a JSON object without "id", at least one field, and no line break. Does not wait.
  virtual int64_t submit(std::string request) = 0;
  /// Once for each ticket. Throws io if nobody can be asked any more.
  virtual Outcome wait(int64_t ticket) = 0;
  /// Whether wait() would return, or throw, at once.
  virtual bool is_judged(int64_t ticket) = 0;
  /// Until somebody can be asked. Throws io with the reason if nobody ever can.
  virtual void wait_until_ready() = 0;
  virtual ScorerStats take_stats() = 0;
};

}  // namespace trireme::rewards
