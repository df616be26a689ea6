#include "runtime/placement/mesh.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::placement {

Mesh Mesh::of(std::vector<int> ranks, int tp) {
  const int count = static_cast<int>(ranks.size());
  TRIREME_CHECK(tp >= 1 && count % tp == 0, "tp {} does not divide {} ranks", tp, count);
  return {count / tp, tp, std::move(ranks)};
}

std::optional<Mesh::Coordinates> Mesh::find(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) return std::nullopt;
  const int place = static_cast<int>(found - ranks.begin());
  return Coordinates{place / tp, place % tp};
}

std::vector<int> Mesh::replica(int d) const {
  const auto first = ranks.begin() + static_cast<ptrdiff_t>(d) * tp;
  return {first, first + tp};
}

std::vector<int> Mesh::part(int t) const {
  std::vector<int> result;
  for (int d = 0; d < dp; ++d) result.push_back(rank(d, t));
  return result;
}

std::vector<std::vector<int>> Mesh::replicas() const {
  std::vector<std::vector<int>> result;
  if (ranks.empty()) return result;
  for (int d = 0; d < dp; ++d) result.push_back(replica(d));
  return result;
}

}  // namespace trireme::placement
