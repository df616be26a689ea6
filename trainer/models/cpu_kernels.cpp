#include "trainer/models/cpu_kernels.h"

#include <cstdlib>
#include <string>

#include "runtime/base/error.h"

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

namespace {

const CpuKernels& choose() {
  const char* wish = std::getenv("TRIREME_CPU_KERNELS");
  const std::string limit = wish ? wish : "amx";
  // The wider two differ in matrix products only (packed_gemm.h).
  const bool wide = limit == "avx512" || limit == "avx512_bf16" || limit == "amx";
  if (limit != "portable" && limit != "avx2" && !wide)
    fail(ErrorCode::invalid_config,
         "TRIREME_CPU_KERNELS={}: must be portable, avx2, avx512, avx512_bf16 or amx", limit);
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  if (wide && has_avx512) return avx512::kKernels;
  if (limit != "portable" && has_avx2) return avx2::kKernels;
#endif
  return portable::kKernels;
}

}  // namespace

const CpuKernels& cpu_kernels() {
  static const CpuKernels& chosen = choose();
  return chosen;
}

}  // namespace trireme::models
