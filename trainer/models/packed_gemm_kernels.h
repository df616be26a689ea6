// What packed_gemm.cpp and its instruction sets share. Internal to packed_gemm*.
//
// A panel holds 32 outputs: of fp32 weights [K][32] floats, of bf16 weights [K / 2][32] pairs (k even in the
// low half), K padded with zeros to a multiple of 32. Each set's sum over k for one output, which fixes its
// bits:
//   fp32, portable      s = s + x[k] w[k], k ascending, product rounded
//   fp32, avx2, avx512  the same with one rounding (fused)
//   bf16, portable, avx2, avx512   as fp32 over the widened elements
//   bf16, avx512_bf16   vdpbf16ps over ascending pairs: denormals are zero
//   bf16, amx           tdpbf16ps over ascending blocks of 32: even and odd k summed apart within a block,
//   then added
//                       to the sum; denormals are zero
#pragma once

#include <stdint.h>

#include "trainer/models/cpu_kernels.h"

namespace trireme::models {

struct GemmTask {
  const void* panels;  // the first panel
  int64_t panel_bytes, num_panels;
  int64_t k, columns;  // columns: how many of the panels' outputs exist
  const void* x;
  int64_t x_stride, rows;
  const void* bias;  // of the first panel's first output, or null
  void* out;         // likewise
  int64_t out_stride;
  Element element, out_element;
  bool large;  // weights that hardly lie in a cache: fetch them ahead
};

struct GemmKernels {
  const char* name;
  void (*f32)(const GemmTask& task);
  void (*bf16)(const GemmTask& task);
};

/// This thread's buffer, 64-byte aligned; it grows and stays.
void* gemm_scratch(int64_t bytes);

/// Asks the system for the tile registers; false where it has none.
bool amx_permitted();

namespace portable {
extern const GemmKernels kGemmKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const GemmKernels kGemmKernels;
}
namespace avx512 {
extern const GemmKernels kGemmKernels;
}
namespace avx512_bf16 {
extern const GemmKernels kGemmKernels;
}
namespace amx {
extern const GemmKernels kGemmKernels;
}
#endif

}  // namespace trireme::models
