// All placements and layouts of a run on so many ranks, and the one that takes least time. Torch-free.
#pragma once

#include <string>
#include <vector>

#include "trainer/costs/outcome.h"

namespace trireme::costs {

/// How far axes go.
struct SearchSpace {
  int64_t most_pp = 1, most_cp = 1;
  bool steps_ahead = false;
};

struct Candidate {
  Job job;
  Outcome outcome;
  bool apart = false;  // rollout on ranks of its own
  std::string text() const;
};

struct Search {
  std::vector<Candidate> best;       // by time; those that fit
  std::vector<std::string> because;  // up to five lines on the first of them
  int64_t tried = 0, fitting = 0;
};
/// `job` gives model, machine, workload, limits, and which roles there are. Throws invalid_config where the
/// machine has fewer devices than `ranks`, or none of the layouts divides them.
Search explore(const Job& job, int64_t ranks, const SearchSpace& space, size_t keep = 5);

}  // namespace trireme::costs
