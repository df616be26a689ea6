// A double of a GPU's runtime: host memory, one GPU per rank. Streams run their work in order and later,
// each on a thread of its own.
#pragma once

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

}  // namespace trireme::comm
