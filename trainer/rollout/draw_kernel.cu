// The kernel for the GPU toolkit that this build has.
#include "trainer/rollout/draw_kernel_body.inc"

namespace trireme::rollout {

DrawKernel draw_kernel() {
  return draw_tokens;
}

}  // namespace trireme::rollout
