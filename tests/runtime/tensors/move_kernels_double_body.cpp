// The kernel's source for the host; apart from what speaks of GPUs under their own names.
#include "tests/runtime/comm/gpu_device_double.h"
// It comes after the double.
#include "runtime/tensors/move_kernels_body.inc"

namespace trireme::tensors {

const MoveKernels& move_kernels_on_the_host() {
  return kKernels;
}

}  // namespace trireme::tensors
