#include "trainer/memory/outside.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/base/error.h"

namespace trireme::memory {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAlignment = 4096;

// Deleted at once: the kernel keeps it as long as it is open.
int nameless_file(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::string path = folder + "/offload-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0)
    fail(ErrorCode::io, "cannot make a file for offloaded memory in {}: {}", folder, std::strerror(errno));
  ::unlink(path.c_str());
  return file;
}

template <typename Transfer>
void transfer_all(Transfer transfer, const char* what, const std::string& folder, std::byte* memory,
                  int64_t bytes, int64_t at) {
  while (bytes > 0) {
    const ssize_t done = transfer(memory, bytes, at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0)
      fail(ErrorCode::io, "cannot {} offloaded memory in {}: {}", what, folder,
           done == 0 ? "the file has ended" : std::strerror(errno));
    memory += done;
    bytes -= done;
    at += done;
  }
}

at::Tensor bytes_of(const at::Tensor& values) {
  return at::from_blob(values.data_ptr(), {static_cast<int64_t>(values.nbytes())},
                       at::TensorOptions().dtype(at::kByte).device(values.device()));
}

}  // namespace

Outside::Outside(at::Device device, std::string folder)
    : device_(device), folder_(std::move(folder)), file_(device.is_cpu() ? nameless_file(folder_) : -1) {
  thread_ = std::thread([this] { work_off(); });
}

Outside::~Outside() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  something_.notify_all();
  thread_.join();
  if (file_ >= 0) ::close(file_);
}

Outside::Slot Outside::take(int64_t bytes) {
  Slot slot = rooms_.size();
  if (const auto found = free_.lower_bound(bytes); found != free_.end() && found->first < 2 * bytes) {
    slot = found->second;
    free_.erase(found);
  } else {
    Room room{bytes, file_bytes_, {}};
    if (device_.is_cpu()) {
      file_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      if (::ftruncate(file_, file_bytes_) != 0)
        fail(ErrorCode::io, "no room for {} bytes of offloaded memory in {}: {}", bytes, folder_,
             std::strerror(errno));
    } else {
      room.memory = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    }
    rooms_.push_back(std::move(room));
  }
  bytes_ += rooms_[slot].bytes;
  most_bytes_ = std::max(most_bytes_, bytes_);
  return slot;
}

void Outside::give_back(Slot slot) {
  bytes_ -= rooms_[slot].bytes;
  free_.emplace(rooms_[slot].bytes, slot);
}

Outside::Room& Outside::room(Slot slot) {
  TRIREME_CHECK(slot < rooms_.size(), "slot {} was not taken", slot);
  return rooms_[slot];
}

Outside::Copy Outside::write(Slot slot, at::Tensor values, int64_t at, std::function<void()> then) {
  Room& to = room(slot);
  const auto bytes = static_cast<int64_t>(values.nbytes());
  TRIREME_CHECK(values.is_contiguous() && at + bytes <= to.bytes, "{} bytes at {} of a slot of {}", bytes, at,
                to.bytes);
  return start([this, &to, values = std::move(values), bytes, at, then = std::move(then)]() mutable {
    if (device_.is_cpu())
      transfer_all([&](auto* m, auto n, auto o) { return ::pwrite(file_, m, static_cast<size_t>(n), o); },
                   "write", folder_, static_cast<std::byte*>(values.data_ptr()), bytes, to.begin + at);
    else
      to.memory.narrow(0, at, bytes).copy_(bytes_of(values));
    values.reset();
    if (then) then();
  });
}

Outside::Copy Outside::read(Slot slot, at::Tensor values, int64_t at) {
  Room& from = room(slot);
  const auto bytes = static_cast<int64_t>(values.nbytes());
  TRIREME_CHECK(values.is_contiguous() && at + bytes <= from.bytes, "{} bytes at {} of a slot of {}", bytes,
                at, from.bytes);
  return start([this, &from, values = std::move(values), bytes, at]() mutable {
    if (device_.is_cpu())
      transfer_all([&](auto* m, auto n, auto o) { return ::pread(file_, m, static_cast<size_t>(n), o); },
                   "read", folder_, static_cast<std::byte*>(values.data_ptr()), bytes, from.begin + at);
    else
      bytes_of(values).copy_(from.memory.narrow(0, at, bytes));
    values.reset();
  });
}

Outside::Copy Outside::after(std::function<void()> action) {
  return start(std::move(action));
}

// On a GPU copies have a stream of their own. It waits for what the caller has enqueued so far; a copy is done
// when the stream is.
Outside::Copy Outside::start(std::function<void()> work) {
  if (!device_.is_cpu()) {
    const c10::impl::VirtualGuardImpl device(device_.type());
    auto enqueued = std::make_shared<c10::Event>(device_.type());
    enqueued->record(device.getStream(device_));
    work = [this, work = std::move(work), enqueued] {
      const c10::impl::VirtualGuardImpl device(device_.type());
      device.setDevice(device_);
      static thread_local const c10::Stream own = device.getStreamFromGlobalPool(device_);
      device.exchangeStream(own);
      enqueued->block(own);
      work();
      own.synchronize();
    };
  }
  std::packaged_task<void()> task(std::move(work));
  Copy copy = task.get_future().share();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  something_.notify_one();
  return copy;
}

void Outside::work_off() {
  while (true) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(mutex_);
      something_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace trireme::memory
