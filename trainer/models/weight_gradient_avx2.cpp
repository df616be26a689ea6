#include "trainer/models/weight_gradient_kernels.h"

namespace trireme::models::avx2 {
namespace {
constexpr int kLanes = 8, kTileRows = 6, kVectors = 2;
constexpr bool kPairs = false;
}  // namespace
#include "trainer/models/weight_gradient_body.inc"
namespace {
void add(Element, const void* left, const void* right, int64_t steps, int rows, int columns, float* out,
         int64_t out_stride) {
  add_tile<Floats>(left, right, steps, rows, columns, out, out_stride);
}
}  // namespace
const WeightGradientKernels kWeightGradient = {"avx2",    kTileRows,  kTileColumns, kPairs,
                                               pack_left, pack_right, add};
}  // namespace trireme::models::avx2
