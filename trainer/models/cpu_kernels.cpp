#include "trainer/models/cpu_kernels.h"

#include "trainer/models/instruction_set.h"

namespace trireme::models {
namespace portable {
extern const CpuKernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const CpuKernels kKernels;
}
namespace avx512 {
extern const CpuKernels kKernels;
}
#endif

const CpuKernels& cpu_kernels() {
#if defined(__x86_64__)
  // The wider two differ in matrix products only (packed_gemm.h).
  if (instruction_set() >= InstructionSet::avx512) return avx512::kKernels;
  if (instruction_set() == InstructionSet::avx2) return avx2::kKernels;
#endif
  return portable::kKernels;
}

}  // namespace trireme::models
