// cos and sin of every position's angles, as far as positions have been asked for.
#pragma once

#include <mutex>

#include <ATen/core/Tensor.h>

#include "trainer/models/decoder_shape.h"

namespace trireme::models {

class RopeTable {
 public:
  explicit RopeTable(const DecoderShape& shape);

  /// [at least `positions`, head_dim] cos | sin, fp32, on the host. Thread-safe; a table that was given out
  /// stays as it is.
  at::Tensor up_to(int64_t positions) const;
  /// The same in the memory of `device`, always the same device.
  at::Tensor up_to(int64_t positions, at::Device device) const;

 private:
  std::vector<float> frequencies_;
  float attention_factor_;
  mutable std::mutex mutex_;
  mutable at::Tensor table_, device_table_;
};

}  // namespace trireme::models
