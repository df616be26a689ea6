// Sessions in a program that has initialized MPI itself.
#include "runtime/session/session.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include "runtime/base/error.h"

namespace trireme::session {
namespace {

using placement::Role;

plan::RankEnv this_rank() {
  plan::RankEnv env;
  MPI_Comm_rank(MPI_COMM_WORLD, &env.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &env.num_ranks);
  return env;
}

TEST(SessionOverMpi, RolesOnTheSameRanksShareAGroup) {
  Session session(this_rank(), {.actor = {0, 1, 2}, .reference = {1, 2}, .rollout = {0, 1, 2}},
                  comm::Device::cpu);
  EXPECT_EQ(session.num_ranks(), 3);
  EXPECT_EQ(session.hosts().size(), 3u);
  EXPECT_EQ(&session.group(Role::actor), &session.group(Role::rollout));
  EXPECT_EQ(session.group(Role::actor).all_reduce_scalar(session.rank()), 3);
  if (session.has(Role::reference)) {
    EXPECT_EQ(session.group(Role::reference).size(), 2);
    EXPECT_EQ(session.group(Role::reference).rank(), session.rank() - 1);
    EXPECT_EQ(session.group(Role::reference).all_reduce_scalar(session.rank()), 3);
  } else {
    EXPECT_THROW(session.group(Role::reference), Error);
  }
}

TEST(SessionOverMpi, OverlappingGroupsWorkSideBySide) {
  Session session(this_rank(), {.actor = {0, 1}, .critic = {1, 2}, .rollout = {2}}, comm::Device::cpu);
  for (int i = 0; i < 20; ++i) {
    if (session.has(Role::actor)) {
      EXPECT_EQ(session.group(Role::actor).all_reduce_scalar(1), 2);
    }
    if (session.has(Role::critic)) {
      EXPECT_EQ(session.group(Role::critic).all_reduce_scalar(1), 2);
    }
    if (session.has(Role::rollout)) {
      EXPECT_EQ(session.group(Role::rollout).all_reduce_scalar(1), 1);
    }
  }
  EXPECT_EQ(session.world().all_reduce_scalar(1), 3);
}

TEST(SessionOverMpi, RefusesAJobOfAnotherSize) {
  plan::RankEnv env = this_rank();
  env.num_ranks = 5;
  try {
    Session session(env, {.actor = {0}}, comm::Device::cpu);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mpi);
    EXPECT_NE(error.message().find("started with 5 ranks"), std::string::npos);
  }
}

TEST(SessionOverMpi, RefusesAnotherOrderOfRanks) {
  plan::RankEnv env = this_rank();
  env.rank = (env.rank + 1) % env.num_ranks;
  EXPECT_THROW(Session(env, {.actor = {0}}, comm::Device::cpu), Error);
}

TEST(SessionOverMpi, AbortOnOneRankReachesAll) {
  Session session(this_rank(), {.actor = {0, 1, 2}}, comm::Device::cpu);
  if (session.rank() == 1) session.abort("loss is NaN");
  try {
    while (true) session.group(Role::actor).barrier();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_failed);
    EXPECT_NE(error.message().find("loss is NaN"), std::string::npos) << error.message();
  }
  EXPECT_THROW(session.world().barrier(), Error);
}

}  // namespace
}  // namespace trireme::session
