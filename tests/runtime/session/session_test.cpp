#include "runtime/session/session.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include "runtime/base/error.h"
#include "runtime/comm/gpu_calls.h"

namespace trireme::session {
namespace {

using placement::Role;

TEST(Session, OneRankNeedsNoMpi) {
  {
    Session session(plan::RankEnv{}, {.actor = {0}, .rollout = {0}}, comm::Device::cpu);
    EXPECT_EQ(session.rank(), 0);
    EXPECT_EQ(session.num_ranks(), 1);
    EXPECT_FALSE(session.host().empty());
    EXPECT_EQ(session.hosts().size(), 1u);
    EXPECT_TRUE(session.has(Role::actor));
    EXPECT_FALSE(session.has(Role::critic));
    EXPECT_EQ(session.world().size(), 1);
    EXPECT_EQ(session.world().all_reduce_scalar(2.5), 2.5);
    EXPECT_EQ(session.group(Role::actor).name(), "actor+rollout");
    EXPECT_EQ(&session.group(Role::actor), &session.group(Role::rollout));
    EXPECT_NE(&session.group(Role::actor), &session.world());
  }
  int initialized = 1;
  MPI_Initialized(&initialized);
  EXPECT_FALSE(initialized);
}

TEST(Session, ARankIsNotInTheGroupsOfOthers) {
  Session session(plan::RankEnv{}, {.actor = {0}, .rollout = {0}}, comm::Device::cpu);
  EXPECT_THROW(session.group(Role::critic), Error);
}

TEST(Session, AbortEndsEveryGroup) {
  Session session(plan::RankEnv{}, {.actor = {0}}, comm::Device::cpu);
  session.abort("the guard is gone");
  EXPECT_THROW(session.world().barrier(), Error);
  EXPECT_THROW(session.group(Role::actor).barrier(), Error);
}

TEST(Session, WithoutGpuSupportAGpuIsTheUsersMistake) {
  if (comm::gpu_calls()) GTEST_SKIP() << "this build has GPU support";
  try {
    Session session(plan::RankEnv{}, {.actor = {0}}, comm::Device::gpu);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
  }
}

TEST(Session, VersionsNameTheLibraries) {
  EXPECT_NE(versions().find("MPI: "), std::string::npos);
  EXPECT_NE(versions().find("NCCL: "), std::string::npos);
}

}  // namespace
}  // namespace trireme::session
