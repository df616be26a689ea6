// The one clock of guards, supervisor and rank pages: CLOCK_MONOTONIC, which stands still while the host
// sleeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trireme::process {

using Clock = std::chrono::steady_clock;

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// For poll(): milliseconds from now, rounded up, never negative.
inline int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left < 0 ? 0 : left > 3600'000 ? 3600'000 : static_cast<int>(left);
}

/// Names this start of this host's kernel: processes for which it is the same share this clock.
std::string boot_id();

}  // namespace trireme::process
