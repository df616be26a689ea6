#include "tests/trainer/rollout/draw_kernel_double.h"

#include "tests/runtime/comm/gpu_device_double.h"
#include "trainer/rollout/draw_kernel_body.inc"

namespace trireme::rollout {

DrawKernel draw_kernel_double() {
  return draw_tokens;
}

}  // namespace trireme::rollout
