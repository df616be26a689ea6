// Switching stacks: what a call has to keep is put on the old one, and taken from the new one.
#include "tests/runtime/comm/gpu_device_double.h"

#if !defined(__x86_64__)
#error "the double of a GPU switches stacks on x86-64 only"
#endif

asm(R"(
.text
.globl trireme_switch_stack
.type trireme_switch_stack, @function
trireme_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size trireme_switch_stack, .-trireme_switch_stack
)");

namespace trireme::gpu {

void* first_switch(char* stack, size_t bytes, void (*entry)()) {
  // From the top: a return address that nobody uses, where the switch returns to, six registers.
  auto* const top = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{15});
  top[-1] = 0;
  top[-2] = reinterpret_cast<uint64_t>(entry);
  for (int i = 3; i <= 8; ++i) top[-i] = 0;
  return top - 8;
}

}  // namespace trireme::gpu
