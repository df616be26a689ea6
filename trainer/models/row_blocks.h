// Rows shared out over threads. What is summed over rows is summed in blocks of fixed size, ascending: the
// same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

namespace trireme::models {

/// body(begin, end) for ranges of [0, rows), where a row has `width` elements.
template <typename Body>
void for_rows(int64_t rows, int64_t width, const Body& body) {
  constexpr int64_t kElementsAtOnce = 32768;  // of a thread that is worth waking
  at::parallel_for(0, rows, std::max<int64_t>(1, kElementsAtOnce / std::max<int64_t>(width, 1)), body);
}

/// body(begin, end, sums) for blocks of rows, sums [width] (fp32, zero at entry) being the block's; what the
/// blocks have summed is added to `total` [width].
template <typename Body>
void add_over_rows(int64_t rows, int64_t width, const at::Tensor& total, const Body& body) {
  constexpr int64_t kBlock = 128;
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  const at::Tensor sums = at::zeros({blocks, width}, at::kFloat);
  auto* first = sums.mutable_data_ptr<float>();
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      body(b * kBlock, std::min(rows, (b + 1) * kBlock), first + b * width);
  });
  auto* to = total.mutable_data_ptr<float>();
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t d = 0; d < width; ++d) to[d] += first[b * width + d];
}

}  // namespace trireme::models
