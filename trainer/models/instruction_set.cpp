#include "trainer/models/instruction_set.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "runtime/base/error.h"
#include "trainer/models/packed_gemm_kernels.h"

namespace trireme::models {
namespace {

constexpr const char* kNames[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};

InstructionSet widest_of_machine() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  if (bf16 && amx_permitted()) return InstructionSet::amx;
  if (bf16) return InstructionSet::avx512_bf16;
  if (avx512) return InstructionSet::avx512;
  if (avx2) return InstructionSet::avx2;
#endif
  return InstructionSet::portable;
}

InstructionSet allowed() {
  const char* wish = std::getenv("TRIREME_CPU_KERNELS");
  if (!wish) return InstructionSet::amx;
  for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i)
    if (std::string(kNames[i]) == wish) return static_cast<InstructionSet>(i);
  fail(ErrorCode::invalid_config,
       "TRIREME_CPU_KERNELS={}: must be portable, avx2, avx512, avx512_bf16 or amx", wish);
}

InstructionSet& chosen() {
  static InstructionSet set = widest_instruction_set();
  return set;
}

}  // namespace

const char* name_of(InstructionSet set) {
  return kNames[static_cast<int>(set)];
}

InstructionSet widest_instruction_set() {
  static const InstructionSet machine = widest_of_machine();
  return std::min(allowed(), machine);
}

InstructionSet instruction_set() {
  return chosen();
}

void use_instruction_set(InstructionSet set) {
  if (set > widest_instruction_set())
    fail(ErrorCode::invalid_config, "this machine has no {} instructions; its widest kernels are {}",
         name_of(set), name_of(widest_instruction_set()));
  chosen() = set;
}

}  // namespace trireme::models
