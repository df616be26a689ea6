// Large pages for memory that is read from many places at once: the address of a small page is soon forgotten
// again, and in a virtual machine looking it up costs as much as the read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace trireme::models {

/// Asks the system to back [memory, memory + bytes) with large pages, before it is first written. A wish:
/// where the system has none, or refuses, nothing changes.
void prefer_large_pages(void* memory, int64_t bytes);

struct LargePageFree {
  void operator()(std::byte* memory) const;
};
using LargePageMemory = std::unique_ptr<std::byte[], LargePageFree>;

/// Memory that lies beside other such blocks on the same large pages: by itself each would leave much of its
/// last page empty, or end in small ones. Aligned to 64 bytes, its values undefined. Pages go back to the system
/// when nothing lies on them any more. Thread-safe. Throws std::bad_alloc.
LargePageMemory on_large_pages(int64_t bytes);

}  // namespace trireme::models
