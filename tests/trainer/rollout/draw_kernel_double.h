// The draw kernel's own source, compiled for the host (tests/trainer/models/gpu_double.h).
#pragma once

#include "trainer/rollout/draw_kernel.h"

namespace trireme::rollout {

DrawKernel draw_kernel_double();

}  // namespace trireme::rollout
