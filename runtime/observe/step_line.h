// The line that a user sees after each step.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme::observe {

struct StepLine {
  std::string phase = "step";                          // the line's first word: "step", "sft"
  int64_t step = 0;                                    // from 1
  int64_t total = 0;                                   // 0: not known
  std::vector<std::pair<std::string, double>> values;  // label, value
  std::vector<std::pair<std::string, double>> stages;  // a stage's name as in timing_s/, seconds
  double tokens_per_second = 0;                        // 0: not shown
};

/// "step 12/200  reward 0.41  kl 0.003  rollout 185 ms | reward 2 | ref 42 | adv 1 | actor 190 | sync 3 3,240
/// tok/s" Stages are in milliseconds, in seconds if one takes more than ten; the unit stands after the first.
std::string step_line(const StepLine& line);

/// "gen" -> "rollout", "update_actor" -> "actor", "update_weights" -> "sync", ...; other names as they are.
std::string stage_label(const std::string& stage);
/// 3240.4 -> "3,240". Negative ones too; "nan" and "inf" as such.
std::string with_thousands(double value);

}  // namespace trireme::observe
