#include "trainer/models/packed_gemm_kernels.h"

namespace trireme::models::avx2 {
namespace {
constexpr int kLanes = 8, kTileRows = 6;
}
#include "trainer/models/packed_gemm_body.inc"
const GemmKernels kGemmKernels = {"avx2", run<F32>, run<Widened>};
}  // namespace trireme::models::avx2
