#include <immintrin.h>

#include "trainer/models/weight_gradient_kernels.h"

namespace trireme::models::avx512_bf16 {
namespace {
constexpr int kLanes = 16, kTileRows = 12, kVectors = 2;
constexpr bool kPairs = true;
}  // namespace
#include "trainer/models/weight_gradient_body.inc"
namespace {

struct Pairs {
  using Word = int32_t;
  static inline Vector plus(Vector sum, Word left, Vector right) {
    return (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)right, (__m512bh)_mm512_set1_epi32(left));
  }
};

void add(Element element, const void* left, const void* right, int64_t steps, int rows, int columns,
         float* out, int64_t out_stride) {
  if (element == Element::f32)
    add_tile<Floats>(left, right, steps, rows, columns, out, out_stride);
  else
    add_tile<Pairs>(left, right, steps, rows, columns, out, out_stride);
}

}  // namespace
const WeightGradientKernels kWeightGradient = {"avx512_bf16", kTileRows,  kTileColumns, kPairs,
                                               pack_left,     pack_right, add};
}  // namespace trireme::models::avx512_bf16
