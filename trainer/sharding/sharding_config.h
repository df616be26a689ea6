// [ROLE.parallel]: how the ranks of a role share its model. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::sharding {

/// Of a role that only reads its model. Ranks that hold one replica together; dp fills what is left.
struct ParallelConfig {
  int64_t tp = 1;  // share out every matrix
  int64_t pp = 1;  // share out the layers
  int64_t cp = 1;  // share out the rows of each sequence
};

/// Of a role that trains.
struct TrainingParallelConfig {
  int64_t tp = 1;
  int64_t zero_stage = 0;       // what dp ranks share out: 1 optimizer state, 2 and gradients, 3 and weights
  std::string reduce = "fast";  // fast | exact: the same bits for any number of dp ranks
  int64_t pp = 1;
  int64_t cp = 1;
};

}  // namespace trireme::sharding
