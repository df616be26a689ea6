#include "trainer/rollout/page_pool.h"

#include <algorithm>
#include <bit>

#include "runtime/base/error.h"

namespace trireme::rollout {

PagePool::PagePool(int64_t num_pages)
    : references_(num_pages, 0), free_((num_pages + 63) / 64, ~uint64_t{0}), num_free_(num_pages) {
  if (num_pages % 64 != 0) free_.back() = (uint64_t{1} << (num_pages % 64)) - 1;
}

int32_t PagePool::take() {
  TRIREME_CHECK(num_free_ > 0, "no free page is left of {}", num_pages());
  while (free_[lowest_] == 0) ++lowest_;
  uint64_t& word = free_[lowest_];
  const auto page = static_cast<int32_t>(lowest_ * 64 + std::countr_zero(word));
  word &= word - 1;
  references_[page] = 1;
  --num_free_;
  return page;
}

void PagePool::share(int32_t page) {
  TRIREME_CHECK(can_share(page), "page {} is free and cannot be shared", page);
  ++references_[page];
}

void PagePool::give_back(int32_t page) {
  TRIREME_CHECK(references_[page] > 0, "page {} was given back more often than it was taken", page);
  if (--references_[page] > 0) return;
  const size_t word = static_cast<size_t>(page) / 64;
  free_[word] |= uint64_t{1} << (page % 64);
  lowest_ = std::min(lowest_, word);
  ++num_free_;
}

}  // namespace trireme::rollout
