// The kernel for the GPU toolkit that this build has.
#include "runtime/tensors/move_kernels_body.inc"

namespace trireme::tensors {

const MoveKernels* move_kernels() {
  return &kKernels;
}

}  // namespace trireme::tensors
