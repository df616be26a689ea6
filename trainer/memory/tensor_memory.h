// How much memory tensors on the host take: a count beside the allocator, for measurements.
#pragma once

#include <cstdint>

namespace trireme::memory {

/// Counts from the first one on, for the life of the process, in all threads. Tensors that were there before
/// it are not in the figures.
class TensorMemory {
 public:
  TensorMemory();
  int64_t held() const;  // bytes, now
  int64_t most() const;  // since it was made, or since the last restart()
  void restart();        // most() begins at held()
};

}  // namespace trireme::memory
