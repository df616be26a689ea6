// The kernels for the GPU toolkit that this build has.
#include "trainer/models/gpu_kernels_body.inc"

namespace trireme::models {

const GpuKernels* gpu_kernels() {
  return &kKernels;
}

}  // namespace trireme::models
