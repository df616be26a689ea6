#include "trainer/data/on_all_cpus.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme::data {
namespace {

// Those that this process may run on.
size_t num_cpus() {
  cpu_set_t cpus;
  return ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? static_cast<size_t>(CPU_COUNT(&cpus)) : 1;
}

}  // namespace

void on_all_cpus(size_t count, const std::function<void(size_t)>& body) {
  constexpr size_t kAtOnce = 256;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (size_t begin; (begin = next.fetch_add(kAtOnce)) < count;)
        for (size_t i = begin; i < std::min(begin + kAtOnce, count); ++i) body(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  const size_t wanted = std::min(num_cpus(), (count + kAtOnce - 1) / kAtOnce);
  while (threads.size() + 1 < wanted) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme::data
