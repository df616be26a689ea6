#include "trainer/models/rope_table.h"

#include <bit>
#include <cmath>

#include <ATen/ops/empty.h>

namespace trireme::models {

RopeTable::RopeTable(const DecoderShape& shape)
    : frequencies_(rope_frequencies(shape.rope_theta, shape.rope_scaling, shape.head_dim)),
      attention_factor_(static_cast<float>(shape.rope_scaling.attention_factor)),
      table_(at::empty({0, shape.head_dim}, at::kFloat)) {}

at::Tensor RopeTable::up_to(int64_t positions) const {
  const std::lock_guard lock(mutex_);
  const int64_t known = table_.size(0);
  if (positions <= known) return table_;
  const auto half = static_cast<int64_t>(frequencies_.size());
  // Doubled, so that a growing text does not make it anew at each token.
  const auto rows =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(positions, 256))));
  const at::Tensor longer = at::empty({rows, 2 * half}, at::kFloat);
  longer.narrow(0, 0, known).copy_(table_);
  float* row = longer.mutable_data_ptr<float>() + known * 2 * half;
  for (int64_t position = known; position < rows; ++position, row += 2 * half)
    for (int64_t d = 0; d < half; ++d) {
      const float angle = static_cast<float>(position) * frequencies_[static_cast<size_t>(d)];
      row[d] = std::cos(angle) * attention_factor_;
      row[half + d] = std::sin(angle) * attention_factor_;
    }
  table_ = longer;
  return table_;
}

at::Tensor RopeTable::up_to(int64_t positions, at::Device device) const {
  const at::Tensor on_host = up_to(positions);
  const std::lock_guard lock(mutex_);
  if (!device_table_.defined() || device_table_.size(0) < positions) device_table_ = on_host.to(device);
  return device_table_;
}

}  // namespace trireme::models
