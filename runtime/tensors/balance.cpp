#include "runtime/tensors/balance.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "runtime/base/error.h"

namespace trireme::tensors {
namespace {

constexpr int kNone = -1;

// Records of one part, as a chain through `next`.
struct Part {
  int64_t cost = 0, count = 0;
  int first = kNone, last = kNone;

  auto key() const { return std::tuple(cost, count, -first); }
};

// Some records shared out among all parts. Only parts that have any are kept, the costliest first.
struct Sharing {
  std::vector<Part> parts;
  int first = 0;  // of all its records, the first in order: decides between equals

  // How far apart its parts are, all of them counted: what is merged first.
  auto spread(int num_parts) const {
    const bool full = static_cast<int>(parts.size()) == num_parts;
    const Part least = full ? parts.back() : Part{};
    return std::tuple(parts.front().cost - least.cost, parts.front().count - least.count, -first);
  }
};

// Costly parts of one meet cheap parts of the other, so that their differences cancel.
Sharing merge(Sharing a, const Sharing& b, size_t num_parts, std::vector<int>& next) {
  a.first = std::min(a.first, b.first);
  a.parts.resize(std::min(num_parts, a.parts.size() + b.parts.size()));
  for (size_t i = 0; i < b.parts.size(); ++i) {
    const Part& part = b.parts[i];
    Part& met = a.parts[a.parts.size() - 1 - i];
    if (met.count == 0) {
      met = part;
      continue;
    }
    met.cost += part.cost;
    met.count += part.count;
    next[met.last] = part.first;
    met.last = part.last;
  }
  std::sort(a.parts.begin(), a.parts.end(), [](const Part& x, const Part& y) { return x.key() > y.key(); });
  return a;
}

}  // namespace

std::vector<int> assign(const std::vector<std::pair<int64_t, int64_t>>& id_and_cost, int num_parts) {
  TRIREME_CHECK(num_parts > 0, "records have nowhere to go");
  std::vector<size_t> order(id_and_cost.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto& [id_a, cost_a] = id_and_cost[a];
    const auto& [id_b, cost_b] = id_and_cost[b];
    return cost_a != cost_b ? cost_a > cost_b : id_a < id_b;
  });

  // From here on a record is its place in that order.
  std::vector<Sharing> heap;
  for (int i = 0; i < static_cast<int>(order.size()); ++i)
    heap.push_back({{{id_and_cost[order[i]].second, 1, i, i}}, i});
  const auto less = [&](const Sharing& a, const Sharing& b) {
    return a.spread(num_parts) < b.spread(num_parts);
  };
  std::make_heap(heap.begin(), heap.end(), less);
  const auto take = [&] {
    std::pop_heap(heap.begin(), heap.end(), less);
    Sharing taken = std::move(heap.back());
    heap.pop_back();
    return taken;
  };
  std::vector<int> next(order.size(), kNone);
  while (heap.size() > 1) {
    Sharing a = take();
    heap.push_back(merge(std::move(a), take(), static_cast<size_t>(num_parts), next));
    std::push_heap(heap.begin(), heap.end(), less);
  }

  std::vector<int> assigned(id_and_cost.size());
  if (heap.empty()) return assigned;
  for (int part = 0; part < static_cast<int>(heap[0].parts.size()); ++part)
    for (int i = heap[0].parts[part].first; i != kNone; i = next[i]) assigned[order[i]] = part;
  return assigned;
}

}  // namespace trireme::tensors
