// Sharing records out so that all parts cost about the same.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace trireme::tensors {

/// The part, 0 to num_parts - 1, of each record, given the records' ids (no two alike) and costs (not
/// negative). By the largest differencing method of Karmarkar and Karp: parts differ by no more than the
/// largest cost, and as a rule by far less; where costs are equal, or nothing, parts get equally many. A
/// function of the pairs alone, whatever their order. Throws internal if there are no parts.
std::vector<int> assign(const std::vector<std::pair<int64_t, int64_t>>& id_and_cost, int num_parts);

}  // namespace trireme::tensors
