// Runs whose times somebody stated, beside what the model of time says of them; and the constants fitted to
// some of them. Torch-free.
#pragma once

#include <string>
#include <vector>

#include "trainer/costs/outcome.h"

namespace trireme::costs {

struct Observation {
  std::string name, source, note;
  bool fitted = false;  // else predicted
  Job job;
  double slots = 0;  // sequences at a time on a rollout replica; 0: as memory allows
  struct Stated {
    std::string stages;  // "gen", or a sum: "old_log_prob+ref"; "step" is the whole
    double seconds;
  };
  std::vector<Stated> stated;
};

/// A JSON object with "runs", or one such run in each line, which `trireme bench train-step --json` writes
/// too. docs/planning.md has the fields. Throws io or invalid_config naming file, run and field.
std::vector<Observation> read_observations(const std::string& path);

struct Comparison {
  std::string name, stages;
  bool fitted;
  double stated, predicted;  // seconds
  double ratio() const { return predicted / stated; }
};
std::vector<Comparison> compare(const std::vector<Observation>& observations, const Constants& constants);

/// Half of the predictions are within this factor of what was stated, over those with the same `fitted`.
double median_factor(const std::vector<Comparison>& comparisons, bool fitted);

/// The constants of `start` that are marked as fitted, moved until the logarithms of predicted / stated are
/// least in sum of absolute values over the observations marked for it. Deterministic.
Constants fit(const std::vector<Observation>& observations, Constants start);

}  // namespace trireme::costs
