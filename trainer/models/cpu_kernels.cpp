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
  const std::string limit = wish ? wish : "avx512";
  if (limit != "portable" && limit != "avx2" && limit != "avx512")
    fail(ErrorCode::invalid_config, "TRIREME_CPU_KERNELS={}: must be portable, avx2 or avx512", limit);
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  if (limit == "avx512" && has_avx512) return avx512::kKernels;
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
