#include <immintrin.h>

#include "trainer/models/packed_gemm_kernels.h"

namespace trireme::models::avx512_bf16 {
namespace {
constexpr int kLanes = 16, kTileRows = 12;
}
#include "trainer/models/packed_gemm_body.inc"
namespace {

// One step is one pair of k; x as it is, padded to whole pairs.
struct Pairs {
  using X = uint32_t;
  static constexpr int64_t kStepBytes = kColumns * 4, kXPerStep = 1;
  static constexpr bool kInPlace = false;
  static int64_t steps(int64_t k) { return (k + 1) / 2; }
  static int64_t x_per_row(int64_t k) { return (k + 1) / 2; }
  static void prepare(const uint16_t* from, int64_t k, X* to) {
    if (k % 2) to[k / 2] = from[k - 1];
    __builtin_memcpy(to, from, static_cast<size_t>(k / 2 * 4));
  }

  template <int R>
  static inline void step(const char* panel, const X* x, int64_t stride, Vector (&sum)[R][kVectors]) {
    __m512bh w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      w[v] = (__m512bh)_mm512_loadu_si512(panel + v * static_cast<int64_t>(sizeof(Vector)));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m512bh xr = (__m512bh)_mm512_set1_epi32(static_cast<int>(x[r * stride]));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = (Vector)_mm512_dpbf16_ps((__m512)sum[r][v], w[v], xr);
    }
  }
};

}  // namespace
const GemmKernels kGemmKernels = {"avx512_bf16", run<F32>, run<Pairs>};
}  // namespace trireme::models::avx512_bf16
