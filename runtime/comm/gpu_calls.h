// The calls to a GPU's runtime and to NCCL that communicators make, as two small interfaces: the build
// provides the real ones (gpu_cuda.cpp), and tests a double, for the same object code. Handles are opaque,
// so nothing above needs a GPU toolkit's headers.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme::comm {

using GpuStream = void*;  // null: the default stream
using GpuEvent = void*;
using NcclHandle = void*;
using NcclId = std::array<char, 128>;

/// The current GPU of the calling thread. Thread-safe. Throws: cuda, naming the call.
class GpuCalls {
 public:
  virtual ~GpuCalls() = default;
  virtual int current_device() = 0;
  virtual void use_device(int device) = 0;
  /// The same for one GPU in all processes of a host, whatever its number there.
  virtual std::string device_id(int device) = 0;

  virtual GpuStream create_stream() = 0;
  virtual void destroy_stream(GpuStream stream) = 0;
  virtual void synchronize(GpuStream stream) = 0;
  virtual GpuEvent create_event() = 0;
  virtual void destroy_event(GpuEvent event) = 0;
  virtual void record(GpuEvent event, GpuStream stream) = 0;
  virtual void wait_for(GpuStream stream, GpuEvent event) = 0;
  virtual bool is_over(GpuEvent event) = 0;

  virtual void* allocate(size_t bytes) = 0;  // GPU memory
  virtual void free(void* memory) = 0;
  virtual void* allocate_pinned(size_t bytes) = 0;  // host memory that the GPU reads and writes directly
  virtual void free_pinned(void* memory) = 0;
  virtual void copy(void* to, const void* from, size_t bytes, GpuStream stream) = 0;  // any direction
};

/// NCCL's own values.
enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// NCCL's calls by their names. Communicators are opened non-blocking, so every call may answer in_progress.
class NcclCalls {
 public:
  virtual ~NcclCalls() = default;
  virtual std::string version() = 0;
  virtual std::string text(NcclResult result, NcclHandle comm) = 0;  // of the error, with NCCL's last words
  virtual NcclResult get_unique_id(NcclId* id) = 0;
  virtual NcclResult init(NcclHandle* comm, int size, const NcclId& id, int rank) = 0;
  virtual NcclResult async_error(NcclHandle comm, NcclResult* state) = 0;
  virtual NcclResult finalize(NcclHandle comm) = 0;
  virtual NcclResult destroy(NcclHandle comm) = 0;
  virtual NcclResult abort(NcclHandle comm) = 0;

  virtual NcclResult broadcast(BufferView data, int root, NcclHandle comm, GpuStream stream) = 0;
  virtual NcclResult all_reduce(BufferView data, ReduceOp op, NcclHandle comm, GpuStream stream) = 0;
  virtual NcclResult all_gather(ConstBufferView in, BufferView out, NcclHandle comm, GpuStream stream) = 0;
  virtual NcclResult reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op, NcclHandle comm,
                                    GpuStream stream) = 0;
  /// `out` is written on the root alone.
  virtual NcclResult reduce(ConstBufferView in, BufferView out, ReduceOp op, int root, NcclHandle comm,
                            GpuStream stream) = 0;
  virtual NcclResult send(ConstBufferView data, int to, NcclHandle comm, GpuStream stream) = 0;
  virtual NcclResult receive(BufferView data, int from, NcclHandle comm, GpuStream stream) = 0;
  virtual NcclResult group_start() = 0;
  virtual NcclResult group_end() = 0;
};

/// Those of this build; null in one without a GPU.
GpuCalls* gpu_calls();
NcclCalls* nccl_calls();

/// "2.28.9", or "not built in".
std::string nccl_version();

}  // namespace trireme::comm
