#include "launcher/backends/srun.h"

#include <gtest/gtest.h>

namespace trireme::backends {
namespace {

std::string line_of(const Srun& srun, const std::vector<HostShare>& hosts) {
  std::string line;
  for (const auto& word : srun.command_line(hosts, {"/bin/trireme", "guard"}, {"A"}))
    line += (line.empty() ? "" : " ") + word;
  return line;
}

constexpr const char* kRest =
    " --cpu-bind=none --mem-bind=none --overcommit --overlap --kill-on-bad-exit=1 --no-kill --wait=0 "
    "--input=none "
    "--export=ALL";

TEST(Srun, StartsAsManyTasksOnEachNode) {
  EXPECT_EQ(line_of(Srun(), {{"n1", 2}, {"n2", 2}}),
            std::string("srun --mpi=pmix --nodes=2 --ntasks=4 --ntasks-per-node=2 --nodelist=n1,n2 "
                        "--distribution=block") +
                kRest + " /bin/trireme guard");
}

TEST(Srun, PlacesUnevenSharesOneByOne) {
  EXPECT_EQ(line_of(Srun(), {{"n1", 2}, {"n2", 1}}),
            std::string("srun --mpi=pmix --nodes=2 --ntasks=3 --nodelist=n1,n1,n2 --distribution=arbitrary") +
                kRest + " /bin/trireme guard");
}

TEST(Srun, PutsTheContainersOptionsBeforeTheProgram) {
  EXPECT_NE(
      line_of(Srun({"--container-image=x.sqsh"}), {{"n1", 1}}).find("--container-image=x.sqsh /bin/trireme"),
      std::string::npos);
}

TEST(Srun, HidesWhatABatchJobAskedForAndAnotherTaskIs) {
  for (const char* name : {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_STEP_ID",
                           "SLURM_CPU_BIND", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    EXPECT_TRUE(Srun().hides(name)) << name;
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_CONF", "PATH", "NCCL_DEBUG"})
    EXPECT_FALSE(Srun().hides(name)) << name;
}

}  // namespace
}  // namespace trireme::backends
