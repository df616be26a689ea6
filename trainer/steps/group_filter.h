// Dynamic sampling: a step's batch is made of groups whose responses were judged differently, from as many
// generated batches as that takes. Source: DAPO, arXiv:2503.14476, section 3.2.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/comm/communicator.h"
#include "trainer/algorithms/algorithm_config.h"
#include "trainer/steps/group.h"
#include "trainer/steps/step_metrics.h"

namespace trireme::steps {

class GroupFilter {
 public:
  /// Wants `wanted` groups. `world` is host memory and outlives this.
  GroupFilter(const algorithms::FilterGroups& config, int64_t wanted, comm::Communicator& world)
      : config_(config), wanted_(wanted), world_(world) {}

  /// Takes a generated batch in; `counts`: false on ranks whose groups another rank brings too. True once
  /// there are enough; without filtering, at once. Collective over: world. Throws invalid_config where the
  /// batches that may be generated do not suffice.
  bool take(std::vector<Group> batch, bool counts, StepMetrics& metrics);

  /// This rank's part of the first `wanted` groups in order of their ids, numbered anew from 0.
  std::vector<Group> result();

  int64_t num_batches() const { return num_batches_; }

 private:
  algorithms::FilterGroups config_;
  int64_t wanted_;
  comm::Communicator& world_;
  std::vector<Group> kept_;
  std::vector<int64_t> ids_;  // of all ranks' kept groups
  int64_t num_batches_ = 0;
};

}  // namespace trireme::steps
