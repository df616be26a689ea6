#include "trainer/sharding/pipeline_schedule.h"

#include <algorithm>

namespace trireme::sharding {

std::vector<Pass> one_forward_one_backward(const models::PipelineStage& stage, size_t micro_batches) {
  const auto behind = static_cast<size_t>(stage.count - 1 - stage.index);
  const size_t ahead = std::min(behind, micro_batches);  // forwards before the first backward's partner
  std::vector<Pass> passes;
  for (size_t k = 0; k < ahead; ++k) passes.push_back({true, k});
  for (size_t k = 0; k < micro_batches; ++k) {
    if (k + ahead < micro_batches) passes.push_back({true, k + ahead});
    passes.push_back({false, k});
  }
  return passes;
}

double pipeline_bubble(int stages, size_t micro_batches) {
  const double waits = stages - 1;
  return micro_batches == 0 ? 0.0 : waits / (static_cast<double>(micro_batches) + waits);
}

}  // namespace trireme::sharding
