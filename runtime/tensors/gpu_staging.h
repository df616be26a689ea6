// Staging in a GPU's memory: one kernel a round packs, one unpacks, and nothing touches the host.
#pragma once

#include <memory>

#include "runtime/comm/gpu_calls.h"
#include "runtime/tensors/move_kernels.h"
#include "runtime/tensors/staging.h"

namespace trireme::tensors {

/// What it runs on: that of the build, or a test's double.
struct GpuToolkit {
  comm::GpuCalls* calls = comm::gpu_calls();
  const MoveKernels* kernels = move_kernels();
  comm::GpuStream compute = nullptr;  // where the masters are written and the weights are read
};

/// Over memory of the calling thread's current GPU. `plan` outlives it. Throws internal without a GPU.
std::unique_ptr<Staging> gpu_staging(const RankPlan& plan, comm::DType wire, const GpuToolkit& gpu);

}  // namespace trireme::tensors
