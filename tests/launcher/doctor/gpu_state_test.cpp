#include "launcher/doctor/gpu_state.h"

#include <gtest/gtest.h>

namespace trireme::doctor {
namespace {

TEST(GpuState, ReadsWhatNvidiaSmiSays) {
  const auto states = gpu_states(
      "00000000:3B:00.0, NVIDIA H100 80GB HBM3, 4, 81559, 0, No, No, Not Active, Not Active, 16, 16, "
      "Disabled\n"
      "00000000:5D:00.0, NVIDIA H100 80GB HBM3, 61000, 81559, 3, Yes, No, Active, Active, 8, 16, Enabled\n"
      "00000000:AF:00.0, NVIDIA GeForce RTX 3090, 10, 24576, [N/A], [N/A], [N/A], Not Active, Not Active, "
      "16, 16, "
      "[N/A]\n"
      "Unable to determine the device handle for GPU0000:D8:00.0: Unknown Error\n");
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].bus_id, "0000:3b:00.0");
  EXPECT_EQ(states[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(states[0].used_mib, 4);
  EXPECT_FALSE(states[0].remap_pending || states[0].slowed_by_hardware || states[0].mig);
  EXPECT_EQ(states[1].uncorrected_errors, 3);
  EXPECT_TRUE(states[1].remap_pending && states[1].slowed_by_heat && states[1].mig);
  EXPECT_FALSE(states[1].remap_failed);
  EXPECT_EQ(states[1].link_width, 8);
  EXPECT_EQ(states[2].uncorrected_errors, 0);
  EXPECT_FALSE(states[2].remap_pending || states[2].remap_failed || states[2].mig);
}

TEST(GpuState, IsEmptyWithoutNvidiaSmi) {
  EXPECT_TRUE(gpu_states("").empty());
}

}  // namespace
}  // namespace trireme::doctor
