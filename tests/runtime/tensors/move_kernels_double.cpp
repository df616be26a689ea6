#include "tests/runtime/tensors/move_kernels_double.h"

#include <mutex>

namespace trireme::tensors {

const MoveKernels& move_kernels_on_the_host();  // move_kernels_double_body.cpp

namespace {

thread_local comm::GpuDouble* this_ranks_gpu = nullptr;

const char* run(const DeviceMoves& moves, comm::DType from, comm::DType to, void* stream) {
  this_ranks_gpu->enqueue(stream, [=] {
    static std::mutex one_block_at_a_time;
    const std::lock_guard lock(one_block_at_a_time);
    move_kernels_on_the_host().run(moves, from, to, nullptr);
  });
  return nullptr;
}

constexpr MoveKernels kKernels{&run};

}  // namespace

GpuToolkit toolkit_double(comm::GpuDouble& gpu, comm::GpuStream compute) {
  this_ranks_gpu = &gpu;
  return {&gpu, &kKernels, compute};
}

}  // namespace trireme::tensors
