#include "trainer/models/packed_gemm_kernels.h"

namespace trireme::models::portable {
namespace {
constexpr int kLanes = 4, kTileRows = 6;
}
#include "trainer/models/packed_gemm_body.inc"
const GemmKernels kGemmKernels = {"portable", run<F32>, run<Widened>};
}  // namespace trireme::models::portable
