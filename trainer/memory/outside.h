// Memory outside of the device that computes: pinned memory of the host for a GPU; for a CPU, whose own
// memory that is, a file without a name. Copies go on in the background, one after the other in the order in
// which they were asked for, while the device computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::memory {

class Outside {
 public:
  /// For tensors of `device`. On a CPU the file lies in `folder`, which is made if it is missing; throws io
  /// if it cannot be. Nothing is left there, however the process ends.
  Outside(at::Device device, std::string folder);
  /// Ends what is under way.
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

  /// Room for some bytes, zero at first where it is new.
  using Slot = size_t;
  Slot take(int64_t bytes);
  void give_back(Slot slot);

  /// A copy under way: get() waits for it, and throws io what it failed of.
  using Copy = std::shared_future<void>;
  /// Both read or write `values` (contiguous, of the device or the host) as the work enqueued before leaves them, and
  /// hold on to it meanwhile; `at` is where in the slot, bytes. `then` is called in the background after the
  /// copy.
  Copy write(Slot slot, at::Tensor values, int64_t at = 0, std::function<void()> then = {});
  Copy read(Slot slot, at::Tensor values, int64_t at = 0);
  /// After all that was asked for so far: in the background, without a copy.
  Copy after(std::function<void()> action);

  /// The most that was outside at one time.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  struct Room {
    int64_t bytes = 0;
    int64_t begin = 0;   // in the file
    at::Tensor memory;   // pinned
  };
  Copy start(std::function<void()> work);
  void work_off();
  Room& room(Slot slot);

  const at::Device device_;
  const std::string folder_;
  int file_ = -1;
  int64_t file_bytes_ = 0, bytes_ = 0, most_bytes_ = 0;
  std::deque<Room> rooms_;  // of which references stay
  std::multimap<int64_t, Slot> free_;

  std::mutex mutex_;  // of what follows
  std::condition_variable something_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme::memory
