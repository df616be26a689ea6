// Ranks on machines of different kinds compute with the same instructions.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/session/session.h"
#include "trainer/commands/compute.h"
#include "trainer/models/instruction_set.h"

namespace trireme::commands {
namespace {

TEST(Compute, AllRanksTakeTheWidestInstructionSetThatEachHas) {
  const auto env = plan::RankEnv::from_environment();
  session::Session session(env, {}, comm::Device::cpu);
  pipeline::StageRunner stages(session.world());
  if (env.rank == env.num_ranks - 1) ::setenv("TRIREME_CPU_KERNELS", "portable", 1);
  agree_on_instruction_set(stages, session.world());
  EXPECT_EQ(models::instruction_set(), models::InstructionSet::portable);
}

TEST(Compute, AWrongNameOnOneRankEndsAll) {
  const auto env = plan::RankEnv::from_environment();
  session::Session session(env, {}, comm::Device::cpu);
  pipeline::StageRunner stages(session.world());
  const bool wrong = env.rank == 0;
  ::setenv("TRIREME_CPU_KERNELS", wrong ? "avx9" : "avx2", 1);
  try {
    agree_on_instruction_set(stages, session.world());
    FAIL() << "avx9 was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), wrong ? ErrorCode::invalid_config : ErrorCode::peer_failed);
    EXPECT_NE(std::string(error.what()).find("TRIREME_CPU_KERNELS=avx9"), std::string::npos) << error.what();
  }
}

TEST(Compute, ASetThatTheMachineDoesNotHaveIsRefused) {
  ::setenv("TRIREME_CPU_KERNELS", "portable", 1);
  EXPECT_THROW(models::use_instruction_set(models::InstructionSet::avx2), Error);
  models::use_instruction_set(models::InstructionSet::portable);
}

}  // namespace
}  // namespace trireme::commands
