// The GPU runtime and its collectives library by one set of names, for NVIDIA and for AMD: aliases only.
#pragma once

#if defined(TRIREME_HIP)
#include <hip/hip_runtime.h>
#include <rccl/rccl.h>
#else
#include <cuda_runtime.h>
#include <nccl.h>
#endif

namespace trireme::comm::gpu_api {

#if defined(TRIREME_HIP)
using Error = hipError_t;
using Stream = hipStream_t;
using Event = hipEvent_t;
inline constexpr Error kSuccess = hipSuccess;
inline constexpr Error kNotReady = hipErrorNotReady;
inline constexpr unsigned kStreamNonBlocking = hipStreamNonBlocking;
inline constexpr unsigned kEventDisableTiming = hipEventDisableTiming;
inline constexpr unsigned kPinned = hipHostMallocPortable;
inline constexpr auto kAnyDirection = hipMemcpyDefault;
inline constexpr auto* get_error_string = &hipGetErrorString;
inline constexpr auto* get_device = &hipGetDevice;
inline constexpr auto* set_device = &hipSetDevice;
inline constexpr auto* device_pci_bus_id = &hipDeviceGetPCIBusId;
inline constexpr auto* stream_create = &hipStreamCreateWithFlags;
inline constexpr auto* stream_destroy = &hipStreamDestroy;
inline constexpr auto* stream_synchronize = &hipStreamSynchronize;
inline constexpr auto* stream_wait_event = &hipStreamWaitEvent;
inline constexpr auto* event_destroy = &hipEventDestroy;
inline constexpr auto* event_query = &hipEventQuery;
inline constexpr auto* memcpy_async = &hipMemcpyAsync;
inline constexpr auto* host_free = &hipHostFree;
inline constexpr auto* device_free = &hipFree;
inline void clear_error() {
  (void)hipGetLastError();
}
inline Error event_create(Event* event, unsigned flags) {
  return hipEventCreateWithFlags(event, flags);
}
inline Error event_record(Event event, Stream stream) {
  return hipEventRecord(event, stream);
}
inline Error host_alloc(void** memory, size_t bytes) {
  return hipHostMalloc(memory, bytes, kPinned);
}
inline Error device_alloc(void** memory, size_t bytes) {
  return hipMalloc(memory, bytes);
}
#else
using Error = cudaError_t;
using Stream = cudaStream_t;
using Event = cudaEvent_t;
inline constexpr Error kSuccess = cudaSuccess;
inline constexpr Error kNotReady = cudaErrorNotReady;
inline constexpr unsigned kStreamNonBlocking = cudaStreamNonBlocking;
inline constexpr unsigned kEventDisableTiming = cudaEventDisableTiming;
inline constexpr unsigned kPinned = cudaHostAllocPortable;
inline constexpr auto kAnyDirection = cudaMemcpyDefault;
inline constexpr auto* get_error_string = &cudaGetErrorString;
inline constexpr auto* get_device = &cudaGetDevice;
inline constexpr auto* set_device = &cudaSetDevice;
inline constexpr auto* device_pci_bus_id = &cudaDeviceGetPCIBusId;
inline constexpr auto* stream_create = &cudaStreamCreateWithFlags;
inline constexpr auto* stream_destroy = &cudaStreamDestroy;
inline constexpr auto* stream_synchronize = &cudaStreamSynchronize;
inline constexpr auto* stream_wait_event = &cudaStreamWaitEvent;
inline constexpr auto* event_destroy = &cudaEventDestroy;
inline constexpr auto* event_query = &cudaEventQuery;
inline constexpr auto* memcpy_async = &cudaMemcpyAsync;
inline constexpr auto* host_free = &cudaFreeHost;
inline constexpr auto* device_free = &cudaFree;
inline void clear_error() {
  (void)cudaGetLastError();
}
inline Error event_create(Event* event, unsigned flags) {
  return cudaEventCreateWithFlags(event, flags);
}
inline Error event_record(Event event, Stream stream) {
  return cudaEventRecord(event, stream);
}
inline Error host_alloc(void** memory, size_t bytes) {
  return cudaHostAlloc(memory, bytes, kPinned);
}
inline Error device_alloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes);
}
#endif

}  // namespace trireme::comm::gpu_api
