#include "launcher/backends/mpirun.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::backends {
namespace {

std::string line_of(const Backend& backend, int ranks) {
  const plan::LaunchPlan plan{
      .run_dir = "/r", .program = {"/p"}, .ranks = std::vector<plan::RankPlan>(ranks)};
  std::string line;
  for (const auto& word : backend.command_line(plan, {"/bin/trireme", "guard"}))
    line += (line.empty() ? "" : " ") + word;
  return line;
}

Mpirun mpirun(bool is_root, std::set<std::string> set = {}) {
  return Mpirun(is_root, [set](const std::string& name) { return set.contains(name); });
}

TEST(Mpirun, StartsOneGuardPerRankOnThisMachine) {
  EXPECT_EQ(
      line_of(mpirun(false), 2),
      "mpirun -np 2 --bind-to none --oversubscribe --mca plm isolated --mca oob_tcp_if_include 127.0.0.0/8 "
      "--mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none "
      "-x TRIREME_RUN_DIR -x TRIREME_SUPERVISOR -x TRIREME_SECRET /bin/trireme guard");
}

TEST(Mpirun, SaysThatRootIsMeantOnlyAsRoot) {
  EXPECT_NE(line_of(mpirun(true), 1).find("-np 1 --allow-run-as-root --bind-to"), std::string::npos);
  EXPECT_EQ(line_of(mpirun(false), 1).find("root"), std::string::npos);
}

TEST(Mpirun, LeavesTheUsersOwnParametersAlone) {
  const auto line = line_of(mpirun(false, {"OMPI_MCA_pml", "OMPI_MCA_btl"}), 1);
  EXPECT_EQ(line.find("--mca pml"), std::string::npos);
  EXPECT_EQ(line.find("--mca btl "), std::string::npos);
  EXPECT_NE(line.find("--mca btl_vader_single_copy_mechanism none"), std::string::npos);
}

TEST(Mpirun, HidesAnotherJobsVariables) {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_jobid"})
    EXPECT_TRUE(mpirun(false).hides(name)) << name;
  for (const char* name : {"PATH", "OMPI_MCA_btl", "OMPI_MCA_orte_tmpdir_base", "NCCL_DEBUG"})
    EXPECT_FALSE(mpirun(false).hides(name)) << name;
}

TEST(Mpirun, KnowsItsBanners) {
  for (const char* line :
       {"--------------------", "", "  Exit code:    3",
        "mpirun detected that one or more processes exited with non-zero status, thus causing"})
    EXPECT_TRUE(mpirun(false).is_noise(line)) << line;
  EXPECT_FALSE(mpirun(false).is_noise("There are not enough slots available in the system"));
}

}  // namespace
}  // namespace trireme::backends
