#include "runtime/plan/rank_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>
#include <type_traits>
#include <utility>

namespace trireme::plan {
namespace {

constexpr uint64_t kMagic = 0x3145474150495254;  // "TRIPAGE1", little-endian
constexpr uint64_t kVersion = 2;

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

template <size_t size>
void put(char (&to)[size], const std::string& from) {
  const size_t length = std::min(size - 1, from.size());
  std::memcpy(to, from.data(), length);
  std::memset(to + length, 0, size - length);
}

template <size_t size>
std::string get(const char (&from)[size]) {
  return std::string(from, ::strnlen(from, size));
}

// A sequence lock over words: an odd count means that somebody writes. Writers take turns on it.
template <typename Value>
class Guarded {
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) % sizeof(uint64_t) == 0);
  static constexpr size_t kWords = sizeof(Value) / sizeof(uint64_t);

 public:
  template <typename Change>
  void write(Change change) {
    uint64_t count = count_.load(std::memory_order_relaxed);
    while (count % 2 == 1 || !count_.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) {
      std::this_thread::yield();
      count = count_.load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_release);
    Value value = load();
    change(value);
    std::array<uint64_t, kWords> raw;
    std::memcpy(raw.data(), &value, sizeof(Value));
    for (size_t i = 0; i < kWords; ++i) words_[i].store(raw[i], std::memory_order_relaxed);
    count_.store(count + 2, std::memory_order_release);
  }

  // A writer that died inside write() leaves an odd count for ever: give up waiting soon.
  Value read() const {
    Value value{};
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const uint64_t before = count_.load(std::memory_order_acquire);
      value = load();
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && count_.load(std::memory_order_relaxed) == before) return value;
      std::this_thread::yield();
    }
    return value;
  }

 private:
  Value load() const {
    std::array<uint64_t, kWords> raw;
    for (size_t i = 0; i < kWords; ++i) raw[i] = words_[i].load(std::memory_order_relaxed);
    Value value;
    std::memcpy(&value, raw.data(), sizeof(Value));
    return value;
  }

  std::atomic<uint64_t> count_;
  std::array<std::atomic<uint64_t>, kWords> words_;
};

struct Progress {
  char phase[32];
  char stage[32];
  int64_t step, total_steps, phase_began_ns, changed_ns;
};
struct Failure {
  int64_t set, code, at_ns;
  char message[8192];
};
struct CollectiveRecord {
  char communicator[48];
  char op[24];
  char dtype[16];
  int64_t used, seq, count, running, began_ns, ended_ns;
};

}  // namespace

struct RankPage::Layout {
  uint64_t magic, version;
  std::atomic<int64_t> ticks;
  Guarded<Progress> progress;
  Guarded<Failure> failure;
  Guarded<CollectiveRecord> collectives[kCommunicators];
};

RankPage::RankPage(std::string path, int fd, Layout* page) : path_(std::move(path)), fd_(fd), page_(page) {}

RankPage::RankPage(RankPage&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      page_(std::exchange(other.page_, nullptr)) {}

RankPage& RankPage::operator=(RankPage&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(page_, other.page_);
  return *this;
}

RankPage::~RankPage() {
  if (page_) ::munmap(page_, sizeof(Layout));
  if (fd_ >= 0) ::close(fd_);
}

// Takes fd. All bytes of a new file are zero, which is an empty page but for its first two words.
RankPage RankPage::map(const std::string& path, int fd, bool fresh) {
  RankPage page(path, fd, nullptr);
  const std::string what = path.empty() ? "a page of memory" : path;
  if (fresh && ::ftruncate(fd, sizeof(Layout)) != 0)
    fail(ErrorCode::io, "cannot make room for {}: {}", what, std::strerror(errno));
  struct stat status {};
  if (!fresh && (::fstat(fd, &status) != 0 || status.st_size != sizeof(Layout)))
    fail(ErrorCode::corrupt_data, "{} is no rank page of this version", what);
  void* memory = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail(ErrorCode::io, "cannot map {}: {}", what, std::strerror(errno));
  page.page_ = static_cast<Layout*>(memory);
  if (fresh) {
    page.page_->magic = kMagic;
    page.page_->version = kVersion;
  } else if (page.page_->magic != kMagic || page.page_->version != kVersion) {
    fail(ErrorCode::corrupt_data, "{} is no rank page of this version", what);
  }
  return page;
}

RankPage RankPage::create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail(ErrorCode::io, "cannot write {}: {}", path, std::strerror(errno));
  RankPage page = map(path, fd, true);
  ::close(std::exchange(page.fd_, -1));
  return page;
}

RankPage RankPage::create_inherited() {
  const int fd = ::memfd_create("trireme-rank-page", 0);
  if (fd < 0) fail(ErrorCode::io, "cannot make a rank's page: {}", std::strerror(errno));
  return map(fmt::format("/proc/self/fd/{}", fd), fd, true);
}

RankPage RankPage::open(const std::string& path) {
  const int fd = path.empty() ? ::memfd_create("trireme-rank-page", MFD_CLOEXEC)
                              : ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail(ErrorCode::io, "cannot open the rank's page {}: {}", path, std::strerror(errno));
  RankPage page = map(path, fd, path.empty());
  ::close(std::exchange(page.fd_, -1));
  return page;
}

void RankPage::set_phase(const std::string& phase, int64_t total_steps) {
  page_->progress.write([&](Progress& p) {
    put(p.phase, phase);
    put(p.stage, "");
    p.step = 0;
    p.total_steps = total_steps;
    p.phase_began_ns = p.changed_ns = now_ns();
  });
}

void RankPage::set_step(int64_t step) {
  page_->progress.write([&](Progress& p) {
    p.step = step;
    p.changed_ns = now_ns();
  });
}

void RankPage::set_stage(const std::string& stage) {
  page_->progress.write([&](Progress& p) {
    put(p.stage, stage);
    p.changed_ns = now_ns();
  });
}

void RankPage::set_error(ErrorCode code, const std::string& message) {
  page_->failure.write([&](Failure& f) {
    if (f.set) return;
    f.code = static_cast<int64_t>(code);
    f.at_ns = now_ns();
    put(f.message, message);
    f.set = 1;
  });
}

void RankPage::tick() {
  page_->ticks.fetch_add(1, std::memory_order_relaxed);
}

int RankPage::communicator_slot(const std::string& name) {
  for (int slot = 0; slot < kCommunicators; ++slot) {
    bool mine = false;
    page_->collectives[slot].write([&](CollectiveRecord& c) {
      if (!c.used) {
        put(c.communicator, name);
        c.used = 1;
      }
      mine = get(c.communicator) == name.substr(0, sizeof(c.communicator) - 1);
    });
    if (mine) return slot;
  }
  return -1;
}

void RankPage::begin_collective(int slot, const std::string& op, const std::string& dtype, int64_t count) {
  if (slot < 0) return;
  page_->collectives[slot].write([&](CollectiveRecord& c) {
    ++c.seq;
    put(c.op, op);
    put(c.dtype, dtype);
    c.count = count;
    c.running = 1;
    c.began_ns = now_ns();
  });
}

void RankPage::end_collective(int slot) {
  if (slot < 0) return;
  page_->collectives[slot].write([&](CollectiveRecord& c) {
    c.running = 0;
    c.ended_ns = now_ns();
  });
}

RankPage::Snapshot RankPage::read() const {
  Snapshot s;
  const Progress progress = page_->progress.read();
  s.phase = get(progress.phase);
  s.stage = get(progress.stage);
  s.step = progress.step;
  s.total_steps = progress.total_steps;
  s.phase_began_ns = progress.phase_began_ns;
  s.changed_ns = progress.changed_ns;
  s.ticks = page_->ticks.load(std::memory_order_relaxed);
  const Failure failure = page_->failure.read();
  if (failure.set) {
    s.has_error = true;
    s.error_code = static_cast<ErrorCode>(failure.code);
    s.error = get(failure.message);
    s.error_ns = failure.at_ns;
  }
  for (const auto& slot : page_->collectives) {
    const CollectiveRecord c = slot.read();
    if (!c.used) break;
    s.collectives.push_back({get(c.communicator), get(c.op), get(c.dtype), c.seq, c.count, c.running != 0,
                             c.began_ns, c.ended_ns});
  }
  return s;
}

}  // namespace trireme::plan
