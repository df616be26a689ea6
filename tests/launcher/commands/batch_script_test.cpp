#include "launcher/commands/batch_script.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
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

TEST(BatchScript, RefusesASweepWithoutValues) {
  BatchJob into;
  EXPECT_THROW(read_sweep("actor.optim.lr", into), Error);
  EXPECT_THROW(read_sweep("actor.optim.lr=", into), Error);
}

}  // namespace
}  // namespace trireme::commands
