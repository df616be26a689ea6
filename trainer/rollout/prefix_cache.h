// What stands on the pages of the KV cache, so that a history that was computed once is found again: by
// the other samples of its prompt, by another request that begins alike, by a sequence that had to give
// its pages up.
//
// A page holds a run of tokens that continues the first so many tokens of another page, or begins a
// history. The pages are a tree, a history is a path in it, and what is compared are the tokens
// themselves. A reader may stop within a page and go on on a page of its own: pages branch at any token,
// and nothing is copied. Only the sequence that took a page writes on it.
//
// A page that nobody reads is free, or idle: then it can still be found, until its room is needed. The one
// that was read longest ago goes first. Readers give a path back from its end, so that one is a leaf.
//
// Not thread-safe. Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/rollout/page_pool.h"

namespace trireme::rollout {

/// The first `length` tokens of a page.
struct PageRun {
  int32_t page = -1;  // -1: before the first page of a history
  int32_t length = 0;
};

class PrefixCache {
 public:
  PrefixCache(int64_t num_pages, int32_t page_size);

  int64_t num_pages() const { return pool_.num_pages(); }
  int64_t num_idle() const { return num_idle_; }
  /// Pages that take() can still give: free ones and idle ones.
  int64_t num_available() const { return pool_.num_free() + num_idle_; }
  int64_t num_used() const { return num_pages() - num_available(); }
  /// The most pages that were read or written at one time.
  int64_t peak_used() const { return peak_used_; }
  bool is_idle(int32_t page) const { return nodes_[page].is_idle; }

  /// The path of the longest beginning of `tokens` that stands on pages: at each page the one goes on that
  /// has most in common. Takes no references: share() what is to be read before the next take().
  std::vector<PageRun> find(std::span<const int32_t> tokens) const;

  /// A page to write on behind `previous`, with one reference. Throws internal if none is available.
  int32_t take(PageRun previous);
  /// Says what is written on the next slot of a page. Throws internal if the page is full.
  void append(int32_t page, int32_t token);

  /// One reader more, of a page that is read or idle.
  void share(int32_t page);
  /// One reader less; of a path, the last page first. Where none is left the page is idle with `keep` or
  /// while other pages continue it, else free. Throws internal if nobody reads it.
  void give_back(int32_t page, bool keep);
  /// Frees all idle pages.
  void forget_idle();

 private:
  struct Node {  // links are page numbers; num_pages() stands for the root, and for the ends of lists
    int32_t previous = 0, previous_length = 0;
    int32_t num_tokens = 0;
    int32_t first_child = 0, left = 0, right = 0;  // left, right: children of the same page
    int32_t older = 0, newer = 0;                  // idle pages
    bool is_idle = false;
  };
  int32_t root() const { return static_cast<int32_t>(num_pages()); }
  int32_t num_in_common(int32_t page, std::span<const int32_t> tokens) const;
  void leave_idle_list(int32_t page);
  void forget(int32_t page);

  PagePool pool_;  // an idle page has one reference: ours
  const int32_t page_size_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;  // [num_pages, page_size]
  int64_t num_idle_ = 0;
  int64_t peak_used_ = 0;
};

}  // namespace trireme::rollout
