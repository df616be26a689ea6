// Nothing moves any more: which rank keeps the others waiting, judged by what the ranks' pages say about
// their collectives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/process/first_failure.h"

namespace trireme::process {

struct Stall {
  int rank = 0;      // the suspect
  std::string what;  // "never entered all_reduce #812 of 'actor' (f32, 4100000 elements), ..."
};

/// Every communicator counts its collectives. A rank that is behind in one in which others wait, and waits
/// nowhere itself, is the suspect; if all that are behind wait elsewhere, the one that is furthest behind.
/// Ranks that disagree about the same collective, and ranks that all wait in the same one, are told as what
/// they are. `now_ns`: the supervisor's clock. Expects at least one rank.
Stall find_stall(const std::vector<RankRecord>& ranks, int64_t now_ns);

}  // namespace trireme::process
