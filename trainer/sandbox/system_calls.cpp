#include "trainer/sandbox/system_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace trireme::sandbox {

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
constexpr uint32_t kX32 =
    0x40000000;  // numbers of x86-64's other interface begin here; all other numbers are below

constexpr uint32_t kStartsProcess[] = {
#ifdef __NR_fork
    __NR_fork,
    __NR_vfork,
#endif
};
constexpr uint32_t kForbidden[] = {
    __NR_unshare,
    __NR_setns,
    __NR_mount,
    __NR_umount2,
    __NR_pivot_root,
    __NR_chroot,
    __NR_ptrace,
    __NR_bpf,
    __NR_perf_event_open,
    __NR_userfaultfd,
    __NR_keyctl,
    __NR_add_key,
    __NR_request_key,
    __NR_shmget,
    __NR_memfd_create,
    __NR_msgget,
    __NR_semget,
    __NR_mq_open,
    __NR_io_uring_setup,
    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_kexec_load,
    __NR_init_module,
    __NR_finit_module,
    __NR_open_by_handle_at,
    __NR_personality,
};

sock_filter load(uint32_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}
sock_filter answer(uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}
uint32_t error(int number) {
  return SECCOMP_RET_ERRNO | static_cast<uint32_t>(number);
}

}  // namespace

std::string system_call_filter() {
  std::vector<sock_filter> filter;
  const auto add = [&](sock_filter instruction) { filter.push_back(instruction); };
  // `action` where what was loaded is `value`.
  const auto if_equal = [&](uint32_t value, uint32_t action) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    add(answer(action));
  };
  add(load(offsetof(seccomp_data, arch)));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  add(answer(SECCOMP_RET_KILL_PROCESS));
  add(load(offsetof(seccomp_data, nr)));
  add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
  add(answer(SECCOMP_RET_KILL_PROCESS));
  for (const uint32_t call : kStartsProcess) if_equal(call, error(EAGAIN));
  for (const uint32_t call : kForbidden) if_equal(call, error(EPERM));
  // Its arguments lie where a filter cannot look; the C library falls back on clone.
  if_equal(__NR_clone3, error(ENOSYS));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 1, 0));
  add(answer(SECCOMP_RET_ALLOW));
  add(load(offsetof(seccomp_data, args)));  // clone's flags: the lower half, on both processors
  add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
  add(answer(error(EAGAIN)));
  add(answer(SECCOMP_RET_ALLOW));
  return {reinterpret_cast<const char*>(filter.data()), filter.size() * sizeof(sock_filter)};
}

#else

std::string system_call_filter() {
  return {};
}

#endif

}  // namespace trireme::sandbox
