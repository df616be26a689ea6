// How long each stage of a step takes, and of what that time is made. Torch-free. docs/planning.md derives
// it.
#pragma once

#include <string>
#include <vector>

#include "trainer/costs/generation_time.h"
#include "trainer/costs/job.h"

namespace trireme::costs {

/// Seconds by what is waited for. Shares of communication that hide behind products are not in it.
struct StageTime {
  std::string name;          // "gen", "update_actor", ... as in metrics
  double work = 0;           // products, and bytes of memory read
  double communication = 0;  // what nothing hides
  double bubble = 0;         // pipeline stages without a micro-batch
  double uneven = 0;         // ranks with fewer rows
  double tail = 0;           // generation: slots whose sequence has ended
  double overhead = 0;       // kernels' starts, scheduling
  LinkUse links;             // of one device
  double total() const { return work + communication + bubble + uneven + tail + overhead; }
};

struct StepTime {
  std::vector<StageTime> stages;                // in the order of a step
  double seconds = 0;                           // of the step: with rollout ahead, its longer half
  double waiting = 0;                           // rank-seconds in which ranks have no stage of theirs
  double stage(const std::string& name) const;  // 0 if there is none
};
/// The layouts must fit; `decode_slots`: sequences at a time on a rollout replica.
StepTime step_time(const Job& job, double decode_slots);

}  // namespace trireme::costs
