#include "trainer/algorithms/rejection_sampling.h"

#include <algorithm>
#include <functional>

namespace trireme::algorithms {

Selection select_accepted(std::span<const Attempt> attempts, int64_t most, bool distinct,
                          const std::set<std::vector<int32_t>>& known) {
  Selection selection;
  std::set<std::vector<int32_t>> seen;
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (!attempts[i].is_accepted) continue;
    std::vector<int32_t> tokens(attempts[i].tokens.begin(), attempts[i].tokens.end());
    if (distinct && (known.contains(tokens) || !seen.insert(std::move(tokens)).second)) {
      ++selection.duplicates;
      continue;
    }
    selection.kept.push_back(i);
  }
  if (most > 0 && static_cast<int64_t>(selection.kept.size()) > most) {
    std::ranges::stable_sort(selection.kept, std::greater<>(), [&](size_t i) { return attempts[i].score; });
    selection.kept.resize(static_cast<size_t>(most));
    std::ranges::sort(selection.kept);
  }
  return selection;
}

}  // namespace trireme::algorithms
