// A build without a GPU toolkit.
#include "runtime/tensors/move_kernels.h"

namespace trireme::tensors {

const MoveKernels* move_kernels() {
  return nullptr;
}

}  // namespace trireme::tensors
