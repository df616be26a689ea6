// What weight_gradient.cpp and its instruction sets share. Internal to weight_gradient*.
//
// Both operands are laid out in panels, depth outermost: the left one holds `rows` outputs' columns of
// grad_y, the right one `columns` columns of x. A word of a panel is a float, or a pair of bf16 (the even
// depth in the low half) where the machine multiplies pairs; elsewhere bf16 is widened on the way. Each
// set's sum over the depth, which fixes an output's bits:
//   portable           s = s + a[t] b[t], t ascending, product rounded
//   avx2, avx512       the same with one rounding (fused)
//   avx512_bf16, bf16  vdpbf16ps over ascending pairs: denormals are zero
#pragma once

#include <stdint.h>

#include "trainer/models/cpu_kernels.h"

namespace trireme::models {

struct WeightGradientKernels {
  const char* name;
  int rows, columns;  // of a tile
  bool pairs;         // bf16 stays bf16, two to a word

  /// `count` columns of matrix [depth, ...] -> a panel of words [steps(depth)][rows or columns], padded with
  /// zeros.
  void (*pack_left)(Element element, const void* matrix, int64_t stride, int64_t depth, int count,
                    void* panel);
  void (*pack_right)(Element element, const void* matrix, int64_t stride, int64_t depth, int count,
                     void* panel);
  /// out [rows, columns] += left^T right, over `steps` words.
  void (*add)(Element element, const void* left, const void* right, int64_t steps, int rows, int columns,
              float* out, int64_t out_stride);

  int64_t steps(Element element, int64_t depth) const {
    return element == Element::bf16 && pairs ? (depth + 1) / 2 : depth;
  }
};

namespace portable {
extern const WeightGradientKernels kWeightGradient;
}
#if defined(__x86_64__)
namespace avx2 {
extern const WeightGradientKernels kWeightGradient;
}
namespace avx512 {
extern const WeightGradientKernels kWeightGradient;
}
namespace avx512_bf16 {
extern const WeightGradientKernels kWeightGradient;
}
#endif

}  // namespace trireme::models
