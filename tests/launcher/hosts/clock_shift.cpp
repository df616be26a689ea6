// Preloaded into a program, tells it another time of day: CLOCK_SHIFT seconds later.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, time);
  const char* shift = std::getenv("CLOCK_SHIFT");
  if (result == 0 && clock == CLOCK_REALTIME && shift) time->tv_sec += std::atol(shift);
  return static_cast<int>(result);
}
