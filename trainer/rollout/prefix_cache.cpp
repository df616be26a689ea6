#include "trainer/rollout/prefix_cache.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::rollout {

PrefixCache::PrefixCache(int64_t num_pages, int32_t page_size)
    : pool_(num_pages), page_size_(page_size), nodes_(num_pages + 1), tokens_(num_pages * page_size) {
  Node& ends = nodes_.back();
  ends.first_child = ends.older = ends.newer = root();
}

std::vector<PageRun> PrefixCache::find(std::span<const int32_t> tokens) const {
  std::vector<PageRun> path;
  PageRun last{root(), 0};
  while (!tokens.empty()) {
    PageRun best;
    for (int32_t child = nodes_[last.page].first_child; child != root(); child = nodes_[child].right) {
      if (nodes_[child].previous_length != last.length) continue;
      const int32_t length = num_in_common(child, tokens);
      if (length > best.length) best = {child, length};
    }
    if (best.length == 0) break;
    path.push_back(best);
    tokens = tokens.subspan(best.length);
    last = best;
  }
  return path;
}

int32_t PrefixCache::num_in_common(int32_t page, std::span<const int32_t> tokens) const {
  const int32_t* own = &tokens_[static_cast<int64_t>(page) * page_size_];
  const auto most = std::min<int64_t>(nodes_[page].num_tokens, static_cast<int64_t>(tokens.size()));
  return static_cast<int32_t>(std::mismatch(own, own + most, tokens.begin()).first - own);
}

int32_t PrefixCache::take(PageRun previous) {
  if (!pool_.can_take(1)) {
    TRIREME_CHECK(num_idle_ > 0, "all {} pages are in use", num_pages());
    forget(nodes_[root()].newer);
  }
  const int32_t page = pool_.take();
  Node& node = nodes_[page];
  node.previous = previous.page < 0 ? root() : previous.page;
  node.previous_length = previous.length;
  node.num_tokens = 0;
  node.first_child = root();
  Node& parent = nodes_[node.previous];
  node.left = root();
  node.right = parent.first_child;
  if (node.right != root()) nodes_[node.right].left = page;
  parent.first_child = page;
  peak_used_ = std::max(peak_used_, num_used());
  return page;
}

void PrefixCache::append(int32_t page, int32_t token) {
  Node& node = nodes_[page];
  TRIREME_CHECK(node.num_tokens < page_size_, "page {} is full", page);
  tokens_[static_cast<int64_t>(page) * page_size_ + node.num_tokens++] = token;
}

void PrefixCache::share(int32_t page) {
  if (!is_idle(page)) return pool_.share(page);
  leave_idle_list(page);  // our reference becomes the reader's
  peak_used_ = std::max(peak_used_, num_used());
}

void PrefixCache::give_back(int32_t page, bool keep) {
  TRIREME_CHECK(!is_idle(page), "page {} was given back more often than it was taken", page);
  if (pool_.references(page) != 1) return pool_.give_back(page);
  Node& node = nodes_[page];
  node.is_idle = true;
  Node& ends = nodes_[root()];
  node.older = ends.older;
  node.newer = root();
  nodes_[ends.older].newer = page;
  ends.older = page;
  ++num_idle_;
  if (!keep && node.first_child == root()) forget(page);
}

void PrefixCache::forget_idle() {
  while (num_idle_ > 0) forget(nodes_[root()].newer);
}

void PrefixCache::leave_idle_list(int32_t page) {
  Node& node = nodes_[page];
  nodes_[node.older].newer = node.newer;
  nodes_[node.newer].older = node.older;
  node.is_idle = false;
  --num_idle_;
}

void PrefixCache::forget(int32_t page) {
  const Node& node = nodes_[page];
  TRIREME_CHECK(node.first_child == root(), "page {} goes before the pages that continue it", page);
  leave_idle_list(page);
  if (node.left != root()) {
    nodes_[node.left].right = node.right;
  } else {
    nodes_[node.previous].first_child = node.right;
  }
  if (node.right != root()) nodes_[node.right].left = node.left;
  pool_.give_back(page);
}

}  // namespace trireme::rollout
