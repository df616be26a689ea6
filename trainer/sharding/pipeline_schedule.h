// The order in which a stage of a pipeline computes its micro-batches: one forward, one backward (1F1B,
// arXiv:2006.09503, as arXiv:2104.04473 runs it, with a flush at the end of each update).
//
//   stage 0  F0 F1 F2 F3 .. B0 F4 B1 F5 B2 .. B3 .. B4 .. B5         4 stages, 6 micro-batches
//   stage 3           F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5
//
// A stage holds the activations of as many micro-batches as there are stages from it to the last, and of no
// more. Of p stages each is idle for p - 1 of m + p - 1 passes, where all passes take as long.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/models/pipeline_stage.h"

namespace trireme::sharding {

struct Pass {
  bool is_forward = true;
  size_t micro_batch = 0;
};

/// Of one stage: each micro-batch forward, then backward, both in ascending order.
std::vector<Pass> one_forward_one_backward(const models::PipelineStage& stage, size_t micro_batches);

/// (p - 1) / (m + p - 1): what part of its time a stage waits, at best.
double pipeline_bubble(int stages, size_t micro_batches);

}  // namespace trireme::sharding
