// Which vector instructions the CPU kernels use. The set fixes the order of every sum, so results carry the
// same bits only where it is the same: one set serves a whole process, and all ranks of a job agree on one.
// Torch-free.
#pragma once

#include <cstdint>

namespace trireme::models {

/// Each holds those before it. avx512_bf16 and amx differ from avx512 in matrix products only.
enum class InstructionSet : uint8_t { portable, avx2, avx512, avx512_bf16, amx };

const char* name_of(InstructionSet set);

/// The widest that this machine has and TRIREME_CPU_KERNELS (a set's name) allows.
/// Throws invalid_config where the variable names no set.
InstructionSet widest_instruction_set();

/// The set in use: the widest, unless use_instruction_set() said otherwise.
InstructionSet instruction_set();

/// From here on, `set`: before the first kernel runs and before any weight is packed. Not thread-safe.
/// Throws invalid_config if it is wider than the widest.
void use_instruction_set(InstructionSet set);

}  // namespace trireme::models
