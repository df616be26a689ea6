#include "tests/runtime/comm/gpu_double.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>

#include "runtime/base/error.h"

namespace trireme::comm {

class GpuDouble::Stream {
 public:
  Stream() : thread_([this] { loop(); }) {}
  ~Stream() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void push(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    ++pushed_;
    changed_.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    const int64_t until = pushed_;
    changed_.wait(lock, [&] { return done_ >= until; });
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !work_.empty(); });
      if (work_.empty()) return;
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  int64_t pushed_ = 0, done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

struct GpuDouble::Event {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t recorded = 0, reached = 0;
};

GpuDouble::GpuDouble(std::string id) : id_(std::move(id)), default_stream_(std::make_shared<Stream>()) {}

GpuDouble::~GpuDouble() {
  synchronize_all();
}

std::shared_ptr<GpuDouble::Stream> GpuDouble::find(GpuStream stream) {
  if (!stream) return default_stream_;
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) fail(ErrorCode::cuda, "no such stream");
  return found->second;
}

std::shared_ptr<GpuDouble::Event> GpuDouble::find_event(GpuEvent event) {
  std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) fail(ErrorCode::cuda, "no such event");
  return found->second;
}

GpuStream GpuDouble::create_stream() {
  auto stream = std::make_shared<Stream>();
  std::lock_guard lock(mutex_);
  return streams_.emplace(stream.get(), stream).first->first;
}

void GpuDouble::destroy_stream(GpuStream stream) {
  auto found = find(stream);
  std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

void GpuDouble::synchronize(GpuStream stream) {
  find(stream)->drain();
}

GpuEvent GpuDouble::create_event() {
  auto event = std::make_shared<Event>();
  std::lock_guard lock(mutex_);
  return events_.emplace(event.get(), event).first->first;
}

void GpuDouble::destroy_event(GpuEvent event) {
  find_event(event);
  std::lock_guard lock(mutex_);
  events_.erase(event);
}

void GpuDouble::record(GpuEvent event, GpuStream stream) {
  const auto found = find_event(event);
  std::lock_guard lock(found->mutex);
  const int64_t mark = ++found->recorded;
  find(stream)->push([found, mark] {
    std::lock_guard reached(found->mutex);
    found->reached = std::max(found->reached, mark);
    found->changed.notify_all();
  });
}

void GpuDouble::wait_for(GpuStream stream, GpuEvent event) {
  const auto found = find_event(event);
  std::lock_guard lock(found->mutex);
  find(stream)->push([found, mark = found->recorded] {
    std::unique_lock reached(found->mutex);
    found->changed.wait(reached, [&] { return found->reached >= mark; });
  });
}

bool GpuDouble::is_over(GpuEvent event) {
  const auto found = find_event(event);
  std::lock_guard lock(found->mutex);
  return found->reached >= found->recorded;
}

void* GpuDouble::allocate(size_t bytes) {
  auto memory = std::make_unique<std::byte[]>(bytes);
  void* const address = memory.get();
  std::lock_guard lock(mutex_);
  memory_.emplace(address, std::move(memory));
  return address;
}

void GpuDouble::free(void* memory) {
  std::lock_guard lock(mutex_);
  if (memory_.erase(memory) == 0) fail(ErrorCode::cuda, "no such memory");
}

void GpuDouble::copy(void* to, const void* from, size_t bytes, GpuStream stream) {
  find(stream)->push([=] { std::memmove(to, from, bytes); });
}

void GpuDouble::enqueue(GpuStream stream, std::function<void()> work) {
  find(stream)->push(std::move(work));
}

void GpuDouble::synchronize_all() {
  std::vector<std::shared_ptr<Stream>> all{default_stream_};
  {
    std::lock_guard lock(mutex_);
    for (const auto& [handle, stream] : streams_) all.push_back(stream);
  }
  // Twice: one stream may wait for an event of another.
  for (int i = 0; i < 2; ++i)
    for (const auto& stream : all) stream->drain();
}

int GpuDouble::in_use() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(streams_.size() + events_.size() + memory_.size());
}

}  // namespace trireme::comm
