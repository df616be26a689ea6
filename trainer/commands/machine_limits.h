// What this machine does at best, measured: the figures that others are held against.
#pragma once

#include <c10/core/ScalarType.h>

namespace trireme::commands {

struct MachineLimits {
  double bytes_per_second = 0;  // reading memory that no cache holds, over all threads of this process
  double flops_per_second = 0;  // matrix products of the compute dtype, likewise
};

/// The best of several ways and times, in about two seconds. `dtype`: fp32 or bf16.
MachineLimits measure_machine_limits(at::ScalarType dtype);

}  // namespace trireme::commands
