// What a kernel and its launch are written in, by one set of names for NVIDIA and for AMD. A test may define
// the same names for the host and TRIREME_GPU_DOUBLE before it includes a kernel's source: then the kernel
// runs there, thread by thread.
//
// Threads work together in teams of 32, whatever the width of the hardware's waves (32 or 64): so results
// do not depend on it.
#pragma once

#include <cstdint>

#ifndef TRIREME_GPU_DOUBLE

#if defined(TRIREME_HIP)
#include <hip/hip_runtime.h>
#else
#include <cuda_runtime.h>
#endif

namespace trireme::gpu {

#if defined(TRIREME_HIP)
using Stream = hipStream_t;
using Error = hipError_t;
inline constexpr Error kSuccess = hipSuccess;
inline constexpr auto* last_error = &hipGetLastError;
inline constexpr auto* error_text = &hipGetErrorString;
template <typename Kernel>
Error allow_shared(Kernel* kernel, int bytes) {
  return hipFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
#else
using Stream = cudaStream_t;
using Error = cudaError_t;
inline constexpr Error kSuccess = cudaSuccess;
inline constexpr auto* last_error = &cudaGetLastError;
inline constexpr auto* error_text = &cudaGetErrorString;
template <typename Kernel>
Error allow_shared(Kernel* kernel, int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
#endif

inline constexpr int kTeam = 32;

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % kTeam;
}
__device__ inline int team() {
  return static_cast<int>(threadIdx.x) / kTeam;
}
__device__ inline int teams_of_block() {
  return static_cast<int>(blockDim.x) / kTeam;
}

/// The value of the lane whose number differs by `mask`; all lanes of a team call it together.
template <typename T>
__device__ inline T from_lane_xor(T value, int mask) {
#if defined(TRIREME_HIP)
  return __shfl_xor(value, mask, kTeam);
#else
  return __shfl_xor_sync(0xffffffffu, value, mask, kTeam);
#endif
}
/// The value of lane `source`, likewise.
template <typename T>
__device__ inline T from_lane(T value, int source) {
#if defined(TRIREME_HIP)
  return __shfl(value, source, kTeam);
#else
  return __shfl_sync(0xffffffffu, value, source, kTeam);
#endif
}
/// What lanes of a team wrote to memory before is seen by the others after.
__device__ inline void sync_team() {
#if defined(TRIREME_HIP)
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup");
  __builtin_amdgcn_wave_barrier();
#else
  __syncwarp();
#endif
}
__device__ inline void sync_block() {
  __syncthreads();
}

/// The block's shared memory, as much as its launch asked for.
__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(16) unsigned char trireme_shared[];
  return trireme_shared;
}

// Sums of whole numbers have one value in any order.
__device__ inline void add_shared(uint32_t* to, uint32_t value) {
  atomicAdd(to, value);
}
__device__ inline void add_shared(uint64_t* to, uint64_t value) {
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
__device__ inline uint64_t high_product(uint64_t a, uint64_t b) {
  return __umul64hi(a, b);
}

struct Launch {
  Stream stream;
  int64_t blocks;
  int threads;
  int shared_bytes = 0;
};

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& how, const Arguments&... arguments) {
  kernel<<<static_cast<unsigned>(how.blocks), how.threads, how.shared_bytes, how.stream>>>(arguments...);
}

}  // namespace trireme::gpu

#endif
