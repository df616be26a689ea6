// Which sampled responses rejection sampling fine-tuning learns from. Source: Yuan et al., arXiv:2308.01825,
// section 3.3: those that the verifier accepts, each distinct one once.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace trireme::algorithms {

struct Attempt {
  std::span<const int32_t> tokens;
  bool is_accepted = false;
  double score = 0.0;
};

struct Selection {
  std::vector<size_t> kept;  // places among the attempts, ascending
  int64_t duplicates = 0;    // accepted ones that say what another one says
};

/// One prompt's attempts, in the order in which they were sampled: of the accepted ones the `most` (0: all) of
/// the highest scores, of equal ones the first. `distinct`: of the same tokens only the first, and none that is in `known`.
Selection select_accepted(std::span<const Attempt> attempts, int64_t most, bool distinct,
                          const std::set<std::vector<int32_t>>& known = {});

}  // namespace trireme::algorithms
