// The pages of the KV cache, by number: which are free, and how many sequences read each of the
// others. The memory itself belongs to the engine. Not thread-safe. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::rollout {

class PagePool {
 public:
  explicit PagePool(int64_t num_pages);

  int64_t num_pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t num_free() const { return num_free_; }
  int32_t references(int32_t page) const { return references_[page]; }

  bool can_take(int64_t count) const { return count <= num_free_; }
  /// The lowest free page, with one reference: low pages stay warm and neighbours stay together.
  /// Throws internal if none is free.
  int32_t take();

  bool can_share(int32_t page) const { return references_[page] > 0; }
  /// One reference more. Throws internal if the page is free.
  void share(int32_t page);
  /// One reference less; the page is free when none is left. Throws internal if it already is.
  void give_back(int32_t page);

 private:
  std::vector<int32_t> references_;
  std::vector<uint64_t> free_;  // one bit a page
  size_t lowest_ = 0;           // no word before this one has a free page
  int64_t num_free_ = 0;
};

}  // namespace trireme::rollout
