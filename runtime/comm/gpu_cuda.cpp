// The real calls. RCCL has NCCL's names and types, so this file serves both.
#include <cstring>
#include <string>

#include "runtime/base/error.h"
#include "runtime/comm/gpu_api.h"
#include "runtime/comm/gpu_calls.h"

namespace trireme::comm {
namespace {

namespace api = gpu_api;

void check(api::Error code, const char* call) {
  if (code == api::kSuccess) return;
  api::clear_error();  // or the next unrelated call would report it again
  throw Error(ErrorCode::cuda, api::get_error_string(code), call);
}

class Gpu : public GpuCalls {
 public:
  int current_device() override {
    int device = 0;
    check(api::get_device(&device), "get device");
    return device;
  }
  void use_device(int device) override { check(api::set_device(device), "set device"); }
  std::string device_id(int device) override {
    char bus_id[64] = {};
    check(api::device_pci_bus_id(bus_id, sizeof bus_id - 1, device), "get PCI bus id");
    return bus_id;
  }

  GpuStream create_stream() override {
    api::Stream stream = nullptr;
    check(api::stream_create(&stream, api::kStreamNonBlocking), "create stream");
    return stream;
  }
  void destroy_stream(GpuStream stream) override {
    check(api::stream_destroy(static_cast<api::Stream>(stream)), "destroy stream");
  }
  void synchronize(GpuStream stream) override {
    check(api::stream_synchronize(static_cast<api::Stream>(stream)), "synchronize stream");
  }
  GpuEvent create_event() override {
    api::Event event = nullptr;
    check(api::event_create(&event, api::kEventDisableTiming), "create event");
    return event;
  }
  void destroy_event(GpuEvent event) override {
    check(api::event_destroy(static_cast<api::Event>(event)), "destroy event");
  }
  void record(GpuEvent event, GpuStream stream) override {
    check(api::event_record(static_cast<api::Event>(event), static_cast<api::Stream>(stream)),
          "record event");
  }
  void wait_for(GpuStream stream, GpuEvent event) override {
    check(api::stream_wait_event(static_cast<api::Stream>(stream), static_cast<api::Event>(event), 0),
          "wait for event");
  }
  bool is_over(GpuEvent event) override {
    const api::Error state = api::event_query(static_cast<api::Event>(event));
    if (state == api::kNotReady) {
      api::clear_error();
      return false;
    }
    check(state, "query event");
    return true;
  }

  void* allocate(size_t bytes) override {
    void* memory = nullptr;
    check(api::device_alloc(&memory, bytes), "allocate");
    return memory;
  }
  void free(void* memory) override { check(api::device_free(memory), "free"); }
  void* allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    check(api::host_alloc(&memory, bytes), "allocate pinned memory");
    return memory;
  }
  void free_pinned(void* memory) override { check(api::host_free(memory), "free pinned memory"); }
  void copy(void* to, const void* from, size_t bytes, GpuStream stream) override {
    check(api::memcpy_async(to, from, bytes, api::kAnyDirection, static_cast<api::Stream>(stream)), "copy");
  }
};

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return ncclUint8;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      break;
  }
  return ncclFloat64;
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      break;
  }
  return ncclMin;
}

NcclResult result(ncclResult_t r) {
  return static_cast<NcclResult>(r);
}
static_assert(static_cast<int>(NcclResult::success) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::system_error) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::internal_error) == ncclInternalError);
static_assert(static_cast<int>(NcclResult::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::in_progress) == ncclInProgress);
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

ncclComm_t comm_of(NcclHandle comm) {
  return static_cast<ncclComm_t>(comm);
}
api::Stream stream_of(GpuStream stream) {
  return static_cast<api::Stream>(stream);
}

class Nccl : public NcclCalls {
 public:
  std::string version() override {
    int code = 0;
    if (ncclGetVersion(&code) != ncclSuccess) return "unknown";
    return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  }
  std::string text(NcclResult code, NcclHandle comm) override {
    const char* last = comm ? ncclGetLastError(comm_of(comm)) : nullptr;
    const char* name = ncclGetErrorString(static_cast<ncclResult_t>(code));
    return last && *last ? fmt::format("{} ({})", name, last) : name;
  }
  NcclResult get_unique_id(NcclId* id) override {
    ncclUniqueId own;
    const ncclResult_t code = ncclGetUniqueId(&own);
    std::memcpy(id->data(), &own, sizeof own);
    return result(code);
  }
  NcclResult init(NcclHandle* comm, int size, const NcclId& id, int rank) override {
    ncclUniqueId own;
    std::memcpy(&own, id.data(), sizeof own);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t opened = nullptr;
    const ncclResult_t code = ncclCommInitRankConfig(&opened, size, own, rank, &config);
    *comm = opened;
    return result(code);
  }
  NcclResult async_error(NcclHandle comm, NcclResult* state) override {
    ncclResult_t code = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_of(comm), &code);
    *state = result(code);
    return result(asked);
  }
  NcclResult finalize(NcclHandle comm) override { return result(ncclCommFinalize(comm_of(comm))); }
  NcclResult destroy(NcclHandle comm) override { return result(ncclCommDestroy(comm_of(comm))); }
  NcclResult abort(NcclHandle comm) override { return result(ncclCommAbort(comm_of(comm))); }

  NcclResult broadcast(BufferView data, int root, NcclHandle comm, GpuStream stream) override {
    return result(ncclBroadcast(data.data, data.data, data.count, type_of(data.dtype), root, comm_of(comm),
                                stream_of(stream)));
  }
  NcclResult all_reduce(BufferView data, ReduceOp op, NcclHandle comm, GpuStream stream) override {
    return result(ncclAllReduce(data.data, data.data, data.count, type_of(data.dtype), op_of(op),
                                comm_of(comm), stream_of(stream)));
  }
  NcclResult all_gather(ConstBufferView in, BufferView out, NcclHandle comm, GpuStream stream) override {
    return result(
        ncclAllGather(in.data, out.data, in.count, type_of(in.dtype), comm_of(comm), stream_of(stream)));
  }
  NcclResult reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op, NcclHandle comm,
                            GpuStream stream) override {
    return result(ncclReduceScatter(in.data, out.data, out.count, type_of(in.dtype), op_of(op), comm_of(comm),
                                    stream_of(stream)));
  }
  NcclResult reduce(ConstBufferView in, BufferView out, ReduceOp op, int root, NcclHandle comm,
                    GpuStream stream) override {
    return result(ncclReduce(in.data, out.data, in.count, type_of(in.dtype), op_of(op), root, comm_of(comm),
                             stream_of(stream)));
  }
  NcclResult send(ConstBufferView data, int to, NcclHandle comm, GpuStream stream) override {
    return result(ncclSend(data.data, data.count, type_of(data.dtype), to, comm_of(comm), stream_of(stream)));
  }
  NcclResult receive(BufferView data, int from, NcclHandle comm, GpuStream stream) override {
    return result(
        ncclRecv(data.data, data.count, type_of(data.dtype), from, comm_of(comm), stream_of(stream)));
  }
  NcclResult group_start() override { return result(ncclGroupStart()); }
  NcclResult group_end() override { return result(ncclGroupEnd()); }
};

}  // namespace

GpuCalls* gpu_calls() {
  static Gpu gpu;
  return &gpu;
}

NcclCalls* nccl_calls() {
  static Nccl nccl;
  return &nccl;
}

}  // namespace trireme::comm
