#include "trainer/memory/stage_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <utility>

namespace trireme::memory {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Straight from the kernel: the C library keeps some of what is freed.
void touch(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, size);
  ::munmap(memory, size);
}

TEST(StageMemory, HasThePeakOfEachStageAlone) {
  if (!std::ofstream("/proc/self/clear_refs").good()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written";
  StageMemory memory(at::kCPU);
  for (const auto& [stage, size] : {std::pair{"large", 256}, {"small", 16}, {"twice", 16}, {"twice", 128}}) {
    memory.begin();
    touch(size * kMiB);
    memory.end(stage);
  }
  const auto peaks = memory.take();
  ASSERT_EQ(peaks.size(), 3u);
  EXPECT_NEAR(static_cast<double>(peaks.at("large") - peaks.at("small")) / kMiB, 240, 8);
  EXPECT_NEAR(static_cast<double>(peaks.at("twice") - peaks.at("small")) / kMiB, 112, 8);
  EXPECT_TRUE(memory.take().empty()) << "they begin anew";
}

TEST(StageMemory, AStageThatNeverBeganIsNotThere) {
  StageMemory memory(at::kCPU);
  memory.end("gen");
  EXPECT_TRUE(memory.take().empty());
}

}  // namespace
}  // namespace trireme::memory
