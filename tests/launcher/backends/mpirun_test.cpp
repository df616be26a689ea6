#include "launcher/backends/mpirun.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::backends {
namespace {

std::string line_of(const Backend& backend, const std::vector<HostShare>& hosts) {
  std::string line;
  for (const auto& word : backend.command_line(hosts, {"/bin/trireme", "guard"}, {"A", "B"}))
    line += (line.empty() ? "" : " ") + word;
  return line;
}
std::string line_of(const Backend& backend, int ranks) {
  return line_of(backend, {{"here", ranks}});
}

Mpirun::Options options(bool is_root, std::set<std::string> set = {}) {
  Mpirun::Options options;
  options.is_root = is_root;
  options.is_set = [set](const std::string& name) { return set.contains(name); };
  return options;
}
Mpirun mpirun(bool is_root, std::set<std::string> set = {}) {
  return Mpirun(options(is_root, std::move(set)));
}

TEST(Mpirun, StartsOneGuardPerRankOnThisMachine) {
  EXPECT_EQ(line_of(mpirun(false), 2),
            "mpirun -np 2 --bind-to none --oversubscribe --mca btl_vader_single_copy_mechanism none "
            "--mca plm isolated --mca oob_tcp_if_include 127.0.0.0/8 --mca pml ob1 --mca btl self,vader "
            "-x A -x B /bin/trireme guard");
}

TEST(Mpirun, ReachesOtherHostsBySshAndFillsThemInOrder) {
  auto several = options(false);
  several.several_hosts = true;
  several.network = "10.78.0.0/24";
  EXPECT_EQ(line_of(Mpirun(several), {{"a", 2}, {"b", 1}}),
            "mpirun -np 3 --bind-to none --oversubscribe --mca btl_vader_single_copy_mechanism none "
            "--host a:2,b:1 --map-by slot --mca plm_rsh_agent ssh -x -o BatchMode=yes -o ConnectTimeout=10 "
            "--mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 "
            "--mca oob_tcp_keepalive_probes 3 --mca oob_tcp_if_include 10.78.0.0/24 --mca pml ob1 "
            "--mca btl self,vader,tcp --mca btl_tcp_if_include 10.78.0.0/24 -x A -x B /bin/trireme guard");
}

TEST(Mpirun, LeavesHcasToUcxAndTheStartToSlurm) {
  auto several = options(false);
  several.several_hosts = several.in_slurm = several.use_rdma = true;
  several.prefix = "/opt/openmpi";
  const auto line = line_of(Mpirun(several), {{"a", 2}, {"b", 2}});
  EXPECT_EQ(line.find("plm_rsh"), std::string::npos) << line;
  EXPECT_NE(line.find("--mca btl ^openib,uct"), std::string::npos) << line;
  EXPECT_NE(line.find("--prefix /opt/openmpi"), std::string::npos) << line;
  EXPECT_EQ(line.find("pml"), std::string::npos) << line;
}

TEST(Mpirun, SpeaksVersionFive) {
  auto several = options(false);
  several.several_hosts = several.is_version_5 = true;
  several.launch_agent = "my-ssh";
  const auto line = line_of(Mpirun(several), {{"a", 2}, {"b", 2}});
  EXPECT_NE(line.find("--mca plm_ssh_agent my-ssh"), std::string::npos) << line;
  EXPECT_EQ(line.find("keepalive"), std::string::npos) << line;
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
