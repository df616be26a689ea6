// Bytes that are kept in a file without a name.
#include "trainer/memory/outside.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"

namespace trireme::memory {
namespace {

namespace fs = std::filesystem;

std::string folder() {
  return testing::TempDir() + "/outside-" + std::to_string(::getpid());
}

TEST(Outside, GivesBackWhatWasWrittenAndZerosWhereNothingWas) {
  Outside outside(at::kCPU, folder());
  const auto a = outside.take(4000), b = outside.take(4000);
  const at::Tensor numbers = at::arange(1000, at::kFloat), read = at::full({1000}, 7.0, at::kFloat);
  outside.write(a, numbers);
  outside.read(a, read).get();
  EXPECT_TRUE(read.equal(numbers));
  outside.read(b, read).get();
  EXPECT_TRUE(read.equal(at::zeros({1000})));
}

TEST(Outside, ReadsAndWritesPartsOfASlot) {
  Outside outside(at::kCPU, folder());
  const auto slot = outside.take(40);
  for (int64_t i = 0; i < 10; ++i) outside.write(slot, at::full({1}, static_cast<double>(i), at::kFloat), 4 * i);
  const at::Tensor middle = at::zeros({3}, at::kFloat);
  outside.read(slot, middle, 4 * 4).get();
  EXPECT_TRUE(middle.equal(at::arange(4, 7, at::kFloat)));
  EXPECT_THROW(outside.read(slot, middle, 4 * 8), Error) << "beyond its end";
}

TEST(Outside, CopiesAreMadeInTheOrderInWhichTheyWereAskedFor) {
  Outside outside(at::kCPU, folder());
  constexpr int64_t kLength = 1 << 20;
  const auto slot = outside.take(kLength * 4);
  std::vector<at::Tensor> reads;
  for (int i = 0; i < 8; ++i) {
    outside.write(slot, at::full({kLength}, i, at::kFloat));
    reads.push_back(at::zeros({kLength}, at::kFloat));
    outside.read(slot, reads.back());
  }
  outside.after([] {}).get();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE((reads[static_cast<size_t>(i)] == i).all().item<bool>()) << i;
}

TEST(Outside, UsesRoomThatWasGivenBackAgain) {
  Outside outside(at::kCPU, folder());
  for (int round = 0; round < 10; ++round) {
    const auto a = outside.take(1000), b = outside.take(5000);
    outside.give_back(a);
    outside.give_back(b);
  }
  EXPECT_EQ(outside.most_bytes(), 6000);
}

TEST(Outside, LeavesNothingInItsFolder) {
  const Outside outside(at::kCPU, folder());
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST(Outside, NamesTheFolderThatCannotBe) {
  try {
    const Outside outside(at::kCPU, "/proc/no/such/place");
    FAIL() << "it was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("/proc/no/such/place"), std::string::npos) << error.what();
  }
}

// A disk that is full: the process may not write files beyond some size. Ends it, with 3 where it was told so.
[[noreturn]] void write_beyond_the_limit() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 20, 1 << 20};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    Outside outside(at::kCPU, folder());
    outside.write(outside.take(4 << 20), at::zeros({1 << 20}, at::kFloat)).get();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(OutsideDeathTest, SaysThatThereIsNoRoom) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(write_beyond_the_limit(), testing::ExitedWithCode(3), "offloaded memory in .*File too large");
}

}  // namespace
}  // namespace trireme::memory
