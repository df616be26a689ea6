// The GPU kernels' own source, compiled for the host (gpu_device_double.h): tensors lie in the host's memory, a
// stream is nothing.
#pragma once

#include "trainer/models/gpu_kernels.h"

namespace trireme::models {

const GpuKernels& gpu_kernels_double();

}  // namespace trireme::models
