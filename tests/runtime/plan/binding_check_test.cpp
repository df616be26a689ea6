#include "runtime/plan/binding_check.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace trireme::plan {
namespace {

class BindingCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    planned_.host = name.data();
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_)) planned_.cpus.push_back(cpu);
  }
  void TearDown() override {
    ::sched_setaffinity(0, sizeof(before_), &before_);
    ::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
  }
  cpu_set_t before_{};
  RankPlan planned_;
};

TEST_F(BindingCheck, FindsNothingWhereAllIsAsPlanned) {
  EXPECT_EQ(binding_differences(planned_), std::vector<std::string>{});
  planned_.cpus.clear();
  EXPECT_EQ(binding_differences(planned_), std::vector<std::string>{}) << "not bound, so any CPUs will do";
}

TEST_F(BindingCheck, NamesTheCpusThatTheRankHasInstead) {
  cpu_set_t one{};
  CPU_SET(planned_.cpus.front(), &one);
  const auto first = std::to_string(planned_.cpus.front());
  planned_.cpus = {1022, 1023};
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  const auto found = binding_differences(planned_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("this rank may run on CPUs " + first + ", the plan says 1022,1023"))
      << found[0];
}

TEST_F(BindingCheck, NamesTheMemoryNodeThatIsNotPreferred) {
  planned_.memory_node = 0;
  const unsigned long node_0 = 1;
  if (::syscall(SYS_set_mempolicy, MPOL_PREFERRED, &node_0, 64) != 0)
    GTEST_SKIP() << "set_mempolicy is forbidden here";
  EXPECT_EQ(binding_differences(planned_), std::vector<std::string>{});
  ::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
  auto found = binding_differences(planned_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("this rank prefers no memory node, the plan says 0")) << found[0];
}

TEST_F(BindingCheck, NamesTheOtherHost) {
  const auto here = planned_.host;
  planned_.host = "elsewhere";
  EXPECT_EQ(binding_differences(planned_),
            std::vector<std::string>{"this rank runs on " + here + ", the plan says elsewhere"});
}

TEST(BusId, IsTheSameHoweverItIsWritten) {
  for (const char* same : {"0000:3b:00.0", "0000:3B:00.0", "3b:00.0", "00000000:3B:00.0"})
    EXPECT_TRUE(is_same_device("0000:3b:00.0", same)) << same;
  for (const char* other : {"0000:3b:00.1", "0001:3b:00.0", "", "13b:00.0"})
    EXPECT_FALSE(is_same_device("0000:3b:00.0", other)) << other;
  EXPECT_TRUE(is_same_device("000d:00:00.0", "0000000D:00:00.0"));
  EXPECT_TRUE(is_same_device("10000:01:00.0", "00010000:01:00.0"));
}

}  // namespace
}  // namespace trireme::plan
