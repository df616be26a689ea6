// Moving variable-length records (a finished group of sequences, packed to bytes by its owner) from the
// ranks that made them to the ranks that need them: one all-to-all, never through one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme::tensors {

struct Record {
  int64_t id = 0;    // unique over all ranks, e.g. the prompt's place in the batch
  int64_t cost = 1;  // for balance: tokens plus a share of their square
  std::string bytes;
  int64_t round = 0;  // what is worked on at one time: each round's costs are made even by themselves
};

/// Sends every record to all ranks of one of `replicas` (each a list of ranks of `world`; a rank is in one at
/// most), so that the costs of each round are even (balance.h): the same for any number of source ranks, any
/// order of arrival, and whether rounds are sent together or one by one. A record has one source, which sends it once to each of those ranks. Returns this rank's records
/// in ascending id, the same on all ranks of a replica; empty on ranks that are in none. Collective over:
/// world (host memory), all ranks, same replicas. Throws: internal, on all ranks, if two records have one id,
/// a cost is negative, a replica is empty, or a rank in one is none of the world's or is named twice.
std::vector<Record> exchange(comm::Communicator& world, std::vector<Record> records,
                             const std::vector<std::vector<int>>& replicas);

/// A record that is written where it is sent from, so that no copy of it need exist before.
struct Outgoing {
  int64_t id = 0, cost = 1;
  int64_t num_bytes = 0;
  std::function<void(char* to)> write;  // all num_bytes; called once for each rank that it goes to
  int64_t round = 0;
};

/// Records where they were received: views into `memory`, which lives with them.
struct Arrivals {
  struct View {
    int64_t id = 0, cost = 1;
    std::string_view bytes;
  };
  std::vector<View> records;  // in ascending id
  std::shared_ptr<char> memory;
};

/// The same without copies of what is sent and received.
Arrivals exchange_in_place(comm::Communicator& world, std::vector<Outgoing> records,
                           const std::vector<std::vector<int>>& replicas);

}  // namespace trireme::tensors
