// The system calls that a program in the sandbox has no business with, as a filter for the kernel.
#pragma once

#include <string>

namespace trireme::sandbox {

/// For bwrap --seccomp: an array of sock_filter. Starting processes fails with EAGAIN, threads are allowed;
/// shared memory and anonymous files, which no limit of memory counts, and the kernel's more dangerous
/// corners fail with EPERM. Empty on a processor for which it is not written.
std::string system_call_filter();

}  // namespace trireme::sandbox
