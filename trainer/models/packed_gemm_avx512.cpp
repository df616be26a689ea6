#include "trainer/models/packed_gemm_kernels.h"

namespace trireme::models::avx512 {
namespace {
constexpr int kLanes = 16, kTileRows = 12;
}
#include "trainer/models/packed_gemm_body.inc"
const GemmKernels kGemmKernels = {"avx512", run<F32>, run<Widened>};
}  // namespace trireme::models::avx512
