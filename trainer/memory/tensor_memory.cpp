#include "trainer/memory/tensor_memory.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace trireme::memory {
namespace {

std::mutex mutex;
int64_t now = 0, peak = 0;
std::unordered_map<void*, int64_t> sizes;
c10::Allocator* underneath = nullptr;

void give_back(void* memory) {
  {
    const std::lock_guard lock(mutex);
    const auto found = sizes.find(memory);
    now -= found->second;
    sizes.erase(found);
  }
  underneath->raw_deallocate(memory);
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    void* memory = underneath->raw_allocate(bytes);
    if (!memory) return {nullptr, at::Device(at::kCPU)};
    const std::lock_guard lock(mutex);
    sizes[memory] = static_cast<int64_t>(bytes);
    now += static_cast<int64_t>(bytes);
    peak = std::max(peak, now);
    return {memory, memory, &give_back, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

TensorMemory::TensorMemory() {
  if (!underneath) {
    underneath = c10::GetCPUAllocator();
    static CountingAllocator counting;
    c10::SetCPUAllocator(&counting, /*priority=*/255);
  }
  restart();
}

int64_t TensorMemory::held() const {
  const std::lock_guard lock(mutex);
  return now;
}
int64_t TensorMemory::most() const {
  const std::lock_guard lock(mutex);
  return peak;
}
void TensorMemory::restart() {
  const std::lock_guard lock(mutex);
  peak = now;
}

}  // namespace trireme::memory
