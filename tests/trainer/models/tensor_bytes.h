// Bytes of tensors that this thread makes and drops, as LibTorch's allocator reports them.
#pragma once

#include <algorithm>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace trireme::models {

class TensorBytes {
 public:
  int64_t live() const { return count_->live; }
  int64_t peak() const { return count_->peak; }

 private:
  struct Count : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
      live += bytes;  // negative where memory is given back
      peak = std::max(peak, live);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t live = 0, peak = 0;
  };
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, count_};
};

}  // namespace trireme::models
