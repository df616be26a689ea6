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

/// Sends every record to all ranks of one of `replicas` (each a list of ranks of `world`; a rank is in one at
/// most), so that costs are even (balance.h): the same for any number of source ranks and any order of
/// arrival. A record has one source, which sends it once to each of those ranks. Returns this rank's records
/// in ascending id, the same on all ranks of a replica; empty on ranks that are in none. Collective over:
/// world (host memory), all ranks, same replicas. Throws: internal, on all ranks, if two records have one id,
/// a cost is negative, a replica is empty, or a rank in one is none of the world's or is named twice.
std::vector<Record> exchange(comm::Communicator& world, std::vector<Record> records,
                             const std::vector<std::vector<int>>& replicas);

}  // namespace trireme::tensors
