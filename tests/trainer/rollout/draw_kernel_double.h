// The draw kernel's own source, compiled for the host (tests/runtime/comm/gpu_device_double.h).
#pragma once

#include "trainer/rollout/draw_kernel.h"

namespace trireme::rollout {

DrawKernel draw_kernel_double();

}  // namespace trireme::rollout
