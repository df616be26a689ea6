// [ROLE.parallel]: how the ranks of a role share its model. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::sharding {

/// Of a role that only reads its model.
struct ParallelConfig {
  int64_t tp = 1;  // ranks that hold one replica together; dp fills what is left
};

/// Of a role that trains.
struct TrainingParallelConfig {
  int64_t tp = 1;
  int64_t zero_stage = 0;       // what dp ranks share out: 1 optimizer state, 2 and gradients, 3 and weights
  std::string reduce = "fast";  // fast | exact: the same bits for any number of dp ranks
};

}  // namespace trireme::sharding
