#include "tests/trainer/models/gpu_kernels_double.h"

#include "tests/runtime/comm/gpu_device_double.h"
#include "trainer/models/gpu_kernels_body.inc"

namespace trireme::models {

const GpuKernels& gpu_kernels_double() {
  return kKernels;
}

}  // namespace trireme::models
