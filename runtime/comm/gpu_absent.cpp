// The calls of a build without a GPU.
#include "runtime/comm/gpu_calls.h"

namespace trireme::comm {

GpuCalls* gpu_calls() {
  return nullptr;
}
NcclCalls* nccl_calls() {
  return nullptr;
}

}  // namespace trireme::comm
