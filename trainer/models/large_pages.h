// Large pages for memory that is read from many places at once: the address of a small page is soon forgotten
// again, and in a virtual machine looking it up costs as much as the read.
#pragma once

#include <cstdint>

namespace trireme::models {

/// Asks the system to back [memory, memory + bytes) with large pages, before it is first written. A wish:
/// where the system has none, or refuses, nothing changes.
void prefer_large_pages(void* memory, int64_t bytes);

}  // namespace trireme::models
