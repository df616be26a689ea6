#include "trainer/models/large_pages.h"

#include <sys/mman.h>

namespace trireme::models {

void prefer_large_pages(void* memory, int64_t bytes) {
  constexpr uintptr_t kLargePage = 2 << 20;  // those that lie within, whole
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (begin + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t last = (begin + static_cast<uintptr_t>(bytes)) / kLargePage * kLargePage;
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace trireme::models
