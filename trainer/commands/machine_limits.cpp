#include "trainer/commands/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "trainer/models/large_pages.h"
#include "trainer/models/packed_linear.h"

namespace trireme::commands {
namespace {

// The machine may do other things: the best of several is what it can do.
double best_seconds(int times, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

constexpr int64_t kBytes = 512 << 20;  // more than any cache

// In several streams, each asked for some lines ahead: a plain loop leaves a third of the rate unused.
float sum_of(const float* values, int64_t count) {
  constexpr int64_t kStreams = 4, kLine = 16, kAhead = 32 * kLine;
  const int64_t part = count / kStreams;
  float lanes[kStreams][kLine] = {};
  for (int64_t k = 0; k + kLine <= part; k += kLine)
    for (int64_t s = 0; s < kStreams; ++s) {
      const float* line = values + s * part + k;
      __builtin_prefetch(line + kAhead);
      for (int64_t lane = 0; lane < kLine; ++lane) lanes[s][lane] += line[lane];
    }
  return std::accumulate(&lanes[0][0], &lanes[0][0] + kStreams * kLine, 0.0f);
}

double read_rate() {
  constexpr int64_t kAlignment = 2 << 20;
  const std::unique_ptr<float, decltype(&std::free)> memory(
      static_cast<float*>(std::aligned_alloc(kAlignment, kBytes)), &std::free);
  if (!memory) throw std::bad_alloc();
  models::prefer_large_pages(memory.get(), kBytes);
  constexpr int64_t kCount = kBytes / static_cast<int64_t>(sizeof(float));
  std::fill(memory.get(), memory.get() + kCount, 1.0f);
  const int64_t threads = at::get_num_threads(), part = kCount / threads;
  std::vector<float> sums(static_cast<size_t>(threads));
  const double seconds = best_seconds(8, [&] {
    at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sums[static_cast<size_t>(i)] = sum_of(memory.get() + i * part, part);
    });
  });
  return static_cast<double>(kBytes) / seconds;
}

// One row times a matrix: all that a product by large weights can read.
double row_product_rate(at::ScalarType dtype) {
  constexpr int64_t kColumns = 4096;
  const at::Tensor matrix = at::ones({kBytes / kColumns / static_cast<int64_t>(at::elementSize(dtype)), kColumns}, dtype);
  const auto packed = models::make_packed(matrix);
  models::pack(matrix, *packed);
  const at::Tensor row = at::ones({1, kColumns}, dtype);
  return static_cast<double>(kBytes) /
         best_seconds(8, [&] { models::packed_linear(row, *packed, {}, at::kFloat); });
}

double product_rate(at::ScalarType dtype) {
  constexpr int64_t kSide = 2048;
  const at::Tensor a = at::ones({kSide, kSide}, dtype);
  const auto packed = models::make_packed(a);
  models::pack(a, *packed);
  const double seconds = std::min(best_seconds(5, [&] { (void)at::mm(a, a); }),
                                  best_seconds(5, [&] { models::packed_linear(a, *packed, {}, dtype); }));
  return 2.0 * kSide * kSide * kSide / seconds;
}

}  // namespace

MachineLimits measure_machine_limits(at::ScalarType dtype) {
  return {std::max(read_rate(), row_product_rate(dtype)), product_rate(dtype)};
}

}  // namespace trireme::commands
