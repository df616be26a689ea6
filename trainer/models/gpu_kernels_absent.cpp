// A build without a GPU toolkit.
#include "trainer/models/gpu_kernels.h"

namespace trireme::models {

const GpuKernels* gpu_kernels() {
  return nullptr;
}

}  // namespace trireme::models
