// A build without a GPU toolkit.
#include "trainer/rollout/step_graphs.h"

namespace trireme::rollout {

std::unique_ptr<StepGraphs> make_step_graphs(at::Device) {
  return nullptr;
}

}  // namespace trireme::rollout
