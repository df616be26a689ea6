// Doubles of a GPU's runtime and of NCCL: host memory, one GPU per thread. Streams run their work in order
// and later, each on a thread of its own; collectives block their stream until all ranks have entered.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/gpu_calls.h"

namespace trireme::comm {

/// One rank's GPU.
class GpuDouble : public GpuCalls {
 public:
  /// Ranks with the same id share a GPU.
  explicit GpuDouble(std::string id);
  ~GpuDouble() override;  // waits for all streams

  int current_device() override { return 0; }
  void use_device(int) override {}
  std::string device_id(int) override { return id_; }
  GpuStream create_stream() override;
  void destroy_stream(GpuStream stream) override;
  void synchronize(GpuStream stream) override;
  GpuEvent create_event() override;
  void destroy_event(GpuEvent event) override;
  void record(GpuEvent event, GpuStream stream) override;
  void wait_for(GpuStream stream, GpuEvent event) override;
  bool is_over(GpuEvent event) override;
  void* allocate(size_t bytes) override;
  void free(void* memory) override;
  void* allocate_pinned(size_t bytes) override { return allocate(bytes); }
  void free_pinned(void* memory) override { free(memory); }
  void copy(void* to, const void* from, size_t bytes, GpuStream stream) override;

  /// A kernel, so to speak.
  void enqueue(GpuStream stream, std::function<void()> work);
  void synchronize_all();
  /// Streams, events and memory that were not given back.
  int in_use() const;

 private:
  class Stream;
  struct Event;
  std::shared_ptr<Stream> find(GpuStream stream);
  std::shared_ptr<Event> find_event(GpuEvent event);

  const std::string id_;
  mutable std::mutex mutex_;
  std::shared_ptr<Stream> default_stream_;
  std::map<GpuStream, std::shared_ptr<Stream>> streams_;
  std::map<GpuEvent, std::shared_ptr<Event>> events_;
  std::map<void*, std::unique_ptr<std::byte[]>> memory_;
};

/// One rank's NCCL. Refuses two ranks on one GPU, calls that differ between ranks, and the use of a
/// communicator that was aborted, destroyed or not yet opened by all; says in_progress where NCCL may.
class NcclDouble : public NcclCalls {
 public:
  explicit NcclDouble(GpuDouble& gpu);
  ~NcclDouble() override;

  std::string version() override { return "double"; }
  std::string text(NcclResult result, NcclHandle comm) override;
  NcclResult get_unique_id(NcclId* id) override;
  NcclResult init(NcclHandle* comm, int size, const NcclId& id, int rank) override;
  NcclResult async_error(NcclHandle comm, NcclResult* state) override;
  NcclResult finalize(NcclHandle comm) override;
  NcclResult destroy(NcclHandle comm) override;
  NcclResult abort(NcclHandle comm) override;
  NcclResult broadcast(BufferView data, int root, NcclHandle comm, GpuStream stream) override;
  NcclResult all_reduce(BufferView data, ReduceOp op, NcclHandle comm, GpuStream stream) override;
  NcclResult all_gather(ConstBufferView in, BufferView out, NcclHandle comm, GpuStream stream) override;
  NcclResult reduce_scatter(ConstBufferView in, BufferView out, ReduceOp op, NcclHandle comm,
                            GpuStream stream) override;
  NcclResult send(ConstBufferView data, int to, NcclHandle comm, GpuStream stream) override;
  NcclResult receive(BufferView data, int from, NcclHandle comm, GpuStream stream) override;
  NcclResult group_start() override;
  NcclResult group_end() override;

  /// Calls that were refused because their communicator had been aborted or destroyed.
  int uses_after_end() const { return uses_after_end_; }
  /// What the next call returns instead of doing its work; once.
  std::atomic<NcclResult> fail_next{NcclResult::success};

 private:
  struct Fabric;  // what the ranks of one communicator share
  struct Comm;    // one rank's part of it
  struct Item {   // an operation on its way to a stream
    Comm* comm;
    GpuStream stream;
    // Those of a group run side by side: all begin, then all do their work, then all wait for others.
    std::function<void()> begin, work, wait;
  };
  NcclResult submit(NcclHandle comm, GpuStream stream, std::function<void()> work,
                    std::function<void()> begin = [] {}, std::function<void()> wait = [] {});
  NcclResult launch(std::vector<Item> items);

  GpuDouble& gpu_;
  std::vector<std::unique_ptr<Comm>> comms_;
  int group_depth_ = 0;
  std::vector<Item> group_;
  std::atomic<int> uses_after_end_{0};
};

}  // namespace trireme::comm
