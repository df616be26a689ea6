#include "launcher/commands/batch_script.h"

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

BatchJob job() {
  BatchJob job;
  job.program = "/opt/trireme/bin/trireme";
  job.config = "/home/me/my run.toml";
  job.overrides = {"rollout.n=8"};
  job.folder = "/home/me";
  job.name = "grpo";
  job.nodes = 2;
  job.time = "1:00:00";
  job.runs_folder = "/home/me/runs";
  return job;
}

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

bool is_bash(const std::string& text) {
  std::ofstream("/tmp/trireme_batch_script_test") << text;
  return std::system("bash -n /tmp/trireme_batch_script_test") == 0;
}

TEST(BatchScript, AsksForNodesAWarningAndAPlaceInTheQueue) {
  const auto text = batch_script(job());
  EXPECT_TRUE(has(text, "#SBATCH --nodes=2")) << text;
  EXPECT_TRUE(has(text, "#SBATCH --signal=B:USR1@300")) << text;
  EXPECT_TRUE(has(text, "#SBATCH --requeue")) << text;
  EXPECT_TRUE(has(text, "#SBATCH --exclusive")) << text;
  EXPECT_FALSE(has(text, "#SBATCH --no-kill")) << text;
  EXPECT_TRUE(has(text, "run=/home/me/runs/grpo-$SLURM_JOB_ID")) << text;
  EXPECT_NE(text.find("/opt/trireme/bin/trireme run '/home/me/my run.toml' rollout.n=8 --nnodes 2"),
            std::string::npos)
      << text;
  EXPECT_TRUE(is_bash(text));
}

TEST(BatchScript, KeepsSpareNodesWhenOneFails) {
  auto with_spare = job();
  with_spare.spare = 1;
  const auto text = batch_script(with_spare);
  EXPECT_TRUE(has(text, "#SBATCH --nodes=3")) << text;
  EXPECT_TRUE(has(text, "#SBATCH --no-kill")) << text;
  EXPECT_NE(text.find("--nnodes 2"), std::string::npos) << text;
}

TEST(BatchScript, MakesAnArrayOfASweep) {
  auto sweep = job();
  read_sweep("actor.optim.lr=1e-4,3e-4,1e-3", sweep);
  const auto text = batch_script(sweep);
  EXPECT_TRUE(has(text, "#SBATCH --array=0-2")) << text;
  EXPECT_TRUE(has(text, "values=(1e-4 3e-4 1e-3)")) << text;
  EXPECT_NE(text.find("actor.optim.lr=\"${values[$SLURM_ARRAY_TASK_ID]}\""), std::string::npos) << text;
  EXPECT_NE(text.find("$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"), std::string::npos) << text;
  EXPECT_TRUE(is_bash(text));
}

TEST(BatchScript, TakesOptionsSetupAndContainersOver) {
  auto rich = job();
  rich.options = {"--account=x --partition=y"};
  rich.setup = {"module load openmpi"};
  rich.gpus_per_node = 8;
  rich.cpus_per_node = 96;
  rich.ranks_per_node = 8;
  rich.container = "/images/trireme.sqsh";
  rich.container_mounts = "/data:/data";
  const auto text = batch_script(rich);
  for (const char* line : {"#SBATCH --account=x --partition=y", "module load openmpi",
                           "#SBATCH --gpus-per-node=8", "#SBATCH --cpus-per-task=96"})
    EXPECT_TRUE(has(text, line)) << text;
  EXPECT_NE(
      text.find("--nproc-per-node 8 --container-image /images/trireme.sqsh --container-mounts /data:/data"),
      std::string::npos)
      << text;
  EXPECT_TRUE(is_bash(text));
}

// Slurm's warning comes when Slurm likes: also while the script still loads modules.
TEST(BatchScript, AWarningBeforeTheLauncherRunsReachesIt) {
  const std::string folder = "/tmp/trireme_batch_script_warning";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto launcher = folder + "/launcher";
  std::ofstream(launcher) << "#!/bin/bash\ntrap 'exit 7' USR1\nfor i in {1..100}; do sleep 0.1; done\n";
  std::filesystem::permissions(launcher, std::filesystem::perms::owner_all);
  auto early = job();
  early.program = launcher;
  early.folder = folder;
  early.setup = {"kill -USR1 $$", "echo loaded > loaded"};
  std::ofstream(folder + "/script") << batch_script(early);
  const int status = std::system(("SLURM_JOB_ID=1 bash " + folder + "/script").c_str());
  EXPECT_TRUE(std::filesystem::exists(folder + "/loaded"));
  ASSERT_TRUE(WIFEXITED(status)) << status;
  // As its own trap says, or killed where it had not set that yet: Slurm runs it again in either case.
  EXPECT_TRUE(WEXITSTATUS(status) == 7 || WEXITSTATUS(status) == 128 + SIGUSR1) << status;
  std::filesystem::remove_all(folder);
}

TEST(BatchScript, RefusesASweepWithoutValues) {
  BatchJob into;
  EXPECT_THROW(read_sweep("actor.optim.lr", into), Error);
  EXPECT_THROW(read_sweep("actor.optim.lr=", into), Error);
}

}  // namespace
}  // namespace trireme::commands
