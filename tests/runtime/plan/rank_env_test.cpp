#include "runtime/plan/rank_env.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "runtime/base/error.h"

namespace trireme::plan {
namespace {

class RankEnvironment : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"TRIREME_RANK", "TRIREME_NUM_RANKS", "TRIREME_LOCAL_RANK", "TRIREME_ATTEMPT", "TRIREME_GPU",
          "TRIREME_RUN_DIR", "TRIREME_SECRET", "TRIREME_PAGE", "TRIREME_SUPERVISOR", "OMPI_COMM_WORLD_RANK",
          "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_RANK", "SLURM_PROCID", "SLURM_NTASKS",
          "SLURM_LOCALID"})
      ::unsetenv(name);
  }
};

TEST_F(RankEnvironment, IsOneRankWhereNothingIsSet) {
  const auto env = RankEnv::from_environment();
  EXPECT_EQ(env.rank, 0);
  EXPECT_EQ(env.num_ranks, 1);
  EXPECT_EQ(env.gpu, -1);
  EXPECT_EQ(env.page, "");
}

TEST_F(RankEnvironment, ReadsWhatOpenMpiAndSlurmSet) {
  ::setenv("SLURM_PROCID", "3", 1);
  ::setenv("SLURM_NTASKS", "4", 1);
  ::setenv("SLURM_LOCALID", "1", 1);
  EXPECT_EQ(RankEnv::from_environment().rank, 3);
  EXPECT_EQ(RankEnv::from_environment().local_rank, 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  EXPECT_EQ(RankEnv::from_environment().rank, 2);
}

TEST_F(RankEnvironment, PrefersItsOwnVariables) {
  ::setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  ::setenv("TRIREME_RANK", "1", 1);
  ::setenv("TRIREME_NUM_RANKS", "5", 1);
  ::setenv("TRIREME_SUPERVISOR", "127.0.0.1:99", 1);
  const auto env = RankEnv::from_environment();
  EXPECT_EQ(env.rank, 1);
  EXPECT_EQ(env.num_ranks, 5);
  EXPECT_EQ(env.supervisor, "127.0.0.1:99");
}

TEST_F(RankEnvironment, NamesTheVariableThatIsNoNumber) {
  ::setenv("TRIREME_RANK", "1x", 1);
  try {
    RankEnv::from_environment();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_STREQ(error.what(), "the environment variable TRIREME_RANK is '1x', which is no whole number");
  }
}

TEST_F(RankEnvironment, RefusesARankThatDoesNotExist) {
  ::setenv("TRIREME_RANK", "2", 1);
  ::setenv("TRIREME_NUM_RANKS", "2", 1);
  EXPECT_THROW(RankEnv::from_environment(), Error);
}

}  // namespace
}  // namespace trireme::plan
