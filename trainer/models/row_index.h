// The rows that a head looks at. Several pairs may name one row: the last of a prompt that samples share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

namespace trireme::models {

/// The distinct rows, ascending, and for each pair its place among them.
struct RowIndex {
  std::vector<int64_t> distinct;
  std::vector<int64_t> place;

  explicit RowIndex(std::span<const int32_t> rows) : distinct(rows.begin(), rows.end()), place(rows.size()) {
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (size_t i = 0; i < rows.size(); ++i)
      place[i] = std::lower_bound(distinct.begin(), distinct.end(), rows[i]) - distinct.begin();
  }
};

inline at::Tensor int64_tensor(const std::vector<int64_t>& values, at::Device device) {
  return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::TensorOptions().dtype(at::kLong))
      .clone()
      .to(device);
}

}  // namespace trireme::models
