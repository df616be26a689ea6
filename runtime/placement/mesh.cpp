#include "runtime/placement/mesh.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::placement {

const char* to_string(Axis axis) {
  switch (axis) {
    case Axis::dp:
      return "dp";
    case Axis::pp:
      return "pp";
    case Axis::cp:
      return "cp";
    case Axis::tp:
      break;
  }
  return "tp";
}

Mesh Mesh::of(std::vector<int> ranks, const ReplicaAxes& axes) {
  const int count = static_cast<int>(ranks.size());
  TRIREME_CHECK(axes.pp >= 1 && axes.cp >= 1 && axes.tp >= 1 && count % axes.num_ranks() == 0,
                "pp {} x cp {} x tp {} does not divide {} ranks", axes.pp, axes.cp, axes.tp, count);
  return {count / axes.num_ranks(), axes.pp, axes.cp, axes.tp, std::move(ranks)};
}

int& Mesh::Coordinates::along(Axis axis) {
  return axis == Axis::dp ? d : axis == Axis::pp ? p : axis == Axis::cp ? c : t;
}

int Mesh::size(Axis axis) const {
  return axis == Axis::dp ? dp : axis == Axis::pp ? pp : axis == Axis::cp ? cp : tp;
}

int Mesh::rank(const Coordinates& at) const {
  return ranks[((static_cast<size_t>(at.d) * pp + at.p) * cp + at.c) * tp + at.t];
}

std::optional<Mesh::Coordinates> Mesh::find(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) return std::nullopt;
  const int place = static_cast<int>(found - ranks.begin());
  return Coordinates{place / (pp * cp * tp), place / (cp * tp) % pp, place / tp % cp, place % tp};
}

std::vector<int> Mesh::replica(int d) const {
  const ptrdiff_t size = static_cast<ptrdiff_t>(pp) * cp * tp;
  return {ranks.begin() + d * size, ranks.begin() + (d + 1) * size};
}

std::vector<std::vector<int>> Mesh::replicas() const {
  std::vector<std::vector<int>> result;
  if (ranks.empty()) return result;
  for (int d = 0; d < dp; ++d) result.push_back(replica(d));
  return result;
}

std::vector<int> Mesh::along(Axis axis, Coordinates at) const {
  std::vector<int> result;
  for (int& place = at.along(axis) = 0; place < size(axis); ++place) result.push_back(rank(at));
  return result;
}

std::vector<int> Mesh::same_weights(Coordinates at) const {
  std::vector<int> result;
  for (at.d = 0; at.d < dp; ++at.d)
    for (at.c = 0; at.c < cp; ++at.c) result.push_back(rank(at));
  return result;
}

std::string Mesh::text() const {
  std::string text = fmt::format("dp {}", dp);
  for (const Axis axis : {Axis::pp, Axis::cp})
    if (size(axis) > 1) text += fmt::format(" x {} {}", to_string(axis), size(axis));
  return text + fmt::format(" x tp {}", tp);
}

}  // namespace trireme::placement
