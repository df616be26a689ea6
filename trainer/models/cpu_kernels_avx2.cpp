#include <immintrin.h>
#include <stdlib.h>

#include "trainer/models/cpu_kernels.h"
#include "trainer/models/slot_span.h"

#define TRIREME_KERNEL_SET "avx2"
namespace trireme::models::avx2 {
extern const CpuKernels kKernels;
#include "trainer/models/cpu_kernels_body.inc"
}  // namespace trireme::models::avx2
