// Moving variable-length records (a finished group of sequences, packed to bytes by its owner) from the
// ranks that made them to the ranks that need them: one all-to-all, never through one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme::tensors {

struct Record {
  int64_t id = 0;    // unique over all ranks, e.g. the prompt's place in the batch
  int64_t cost = 1;  // for balance: tokens plus a share of their square
  std::string bytes;
};

/// Sends every record to one of `destinations` (ranks of `world`), so that costs are even (largest first to
/// the least loaded, ties by id: the same assignment for any number of source ranks and any order of
/// arrival). Returns this rank's records in ascending id; empty on ranks that are no destination. Collective
/// over: world (host memory), all ranks, same destinations. Throws: internal, on all ranks, if two records
/// have one id, a cost is negative, or a destination is no rank or is named twice.
std::vector<Record> exchange(comm::Communicator& world, std::vector<Record> records,
                             const std::vector<int>& destinations);

/// The assignment alone: destination index of each record, given all ids and costs. No destination bears more
/// than the mean plus the largest cost.
std::vector<int> assign(const std::vector<std::pair<int64_t, int64_t>>& id_and_cost, int num_destinations);

}  // namespace trireme::tensors
