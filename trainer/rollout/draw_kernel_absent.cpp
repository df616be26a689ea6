// A build without a GPU toolkit.
#include "trainer/rollout/draw_kernel.h"

namespace trireme::rollout {

DrawKernel draw_kernel() {
  return nullptr;
}

}  // namespace trireme::rollout
