#include "trainer/models/large_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
// Of addresses: pages are there once they are written to.
constexpr uintptr_t kRegion = uintptr_t{64} << 20;
constexpr uintptr_t kAlignment = 64;

uintptr_t round_up(uintptr_t value, uintptr_t to) {
  return (value + to - 1) / to * to;
}

class Pool {
 public:
  std::byte* take(uintptr_t bytes) {
    bytes = round_up(std::max<uintptr_t>(bytes, 1), kAlignment);
    const std::lock_guard lock(mutex_);
    for (auto& [begin, region] : regions_)
      if (std::byte* memory = take_from(region, bytes)) return memory;
    return take_from(add_region(std::max(round_up(bytes, kLargePage), kRegion)), bytes);
  }

  void give_back(std::byte* memory) {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    auto place = regions_.upper_bound(begin);
    TRIREME_CHECK(place != regions_.begin(), "memory that is not the pool's");
    Region& region = (--place)->second;
    const auto block = region.taken.extract(begin);
    TRIREME_CHECK(!block.empty(), "memory that is not the pool's");
    uintptr_t first = begin, last = begin + block.mapped();
    // With its free neighbours.
    auto next = region.free.lower_bound(first);
    if (next != region.free.end() && next->first == last) {
      last += next->second;
      next = region.free.erase(next);
    }
    if (next != region.free.begin())
      if (const auto before = std::prev(next); before->first + before->second == first) {
        first = before->first;
        region.free.erase(before);
      }
    region.free.emplace(first, last - first);
    if (region.taken.empty()) {
      ::munmap(reinterpret_cast<void*>(place->first), region.bytes);
      regions_.erase(place);
      return;
    }
    const uintptr_t page = round_up(first, kLargePage), end = last / kLargePage * kLargePage;
    if (page < end) (void)::madvise(reinterpret_cast<void*>(page), end - page, MADV_DONTNEED);
  }

 private:
  struct Region {
    uintptr_t bytes = 0;
    std::map<uintptr_t, uintptr_t> free, taken;  // by address: bytes
  };

  static std::byte* take_from(Region& region, uintptr_t bytes) {
    const auto place =
        std::find_if(region.free.begin(), region.free.end(), [&](const auto& range) { return range.second >= bytes; });
    if (place == region.free.end()) return nullptr;
    const auto [begin, size] = *place;
    region.free.erase(place);
    if (size > bytes) region.free.emplace(begin + bytes, size - bytes);
    region.taken.emplace(begin, bytes);
    return reinterpret_cast<std::byte*>(begin);
  }

  Region& add_region(uintptr_t bytes) {
    const uintptr_t asked = bytes + kLargePage;
    void* memory = ::mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    const auto from = reinterpret_cast<uintptr_t>(memory), begin = round_up(from, kLargePage);
    if (begin > from) ::munmap(memory, begin - from);
    if (const uintptr_t behind = from + asked - begin - bytes; behind > 0)
      ::munmap(reinterpret_cast<void*>(begin + bytes), behind);
    prefer_large_pages(reinterpret_cast<void*>(begin), static_cast<int64_t>(bytes));
    Region& region = regions_[begin];
    region.bytes = bytes;
    region.free.emplace(begin, bytes);
    return region;
  }

  std::mutex mutex_;
  std::map<uintptr_t, Region> regions_;  // by address
};

// Never destroyed: threads may end after it would be.
Pool& pool() {
  static auto* const the_pool = new Pool;
  return *the_pool;
}

}  // namespace

void prefer_large_pages(void* memory, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = round_up(begin, kLargePage);
  const uintptr_t last = (begin + static_cast<uintptr_t>(bytes)) / kLargePage * kLargePage;
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

#if defined(__SANITIZE_ADDRESS__)
// A block each, so that what is written beyond one is seen.
void LargePageFree::operator()(std::byte* memory) const {
  std::free(memory);
}

LargePageMemory on_large_pages(int64_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignment, static_cast<size_t>(std::max<int64_t>(bytes, 1))) != 0)
    throw std::bad_alloc();
  return LargePageMemory(static_cast<std::byte*>(memory));
}
#else
void LargePageFree::operator()(std::byte* memory) const {
  pool().give_back(memory);
}

LargePageMemory on_large_pages(int64_t bytes) {
  return LargePageMemory(pool().take(static_cast<uintptr_t>(bytes)));
}
#endif

}  // namespace trireme::models
