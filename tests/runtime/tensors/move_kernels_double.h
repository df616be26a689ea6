// The kernel that carries out moves, on a double of a GPU: work of its streams, thread by thread.
#pragma once

#include "runtime/tensors/gpu_staging.h"
#include "tests/runtime/comm/gpu_double.h"

namespace trireme::tensors {

/// Over `gpu`, which this thread's launches go to from here on.
GpuToolkit toolkit_double(comm::GpuDouble& gpu, comm::GpuStream compute);

}  // namespace trireme::tensors
