// A real Slurm with three nodes on this machine: the script that `trireme slurm` writes, srun and mpirun,
// time limits, cancelling, a node without power.
#include "tests/launcher/hosts/testbed.h"

namespace trireme::testbed {
namespace {

constexpr int kSteps = 40;
constexpr int kLongSteps = 300;  // of an eighth of a second at least: the warning comes in between

class Slurm : public TestbedTest {
 protected:
  static void SetUpTestSuite() {
    bring_up("slurm", 3, {"ip", "nsenter", "slurmctld", "slurmd", "munged", "srun", "mpirun"});
  }
  void SetUp() override {
    TestbedTest::SetUp();
    if (!IsSkipped()) write("tiny.toml", tiny_configuration(kSteps));
  }
  void TearDown() override {
    TestbedTest::TearDown();
    if (reason().empty()) ctl("scancel -u root");
  }

  static Result ctl(const std::string& command) {
    return on("ctl", "export SLURM_CONF=" + (folder() / "slurm.conf").string() + "; " + command);
  }
  /// `trireme slurm`, submitted. Returns the job's number.
  std::string submit(const std::string& options, const std::string& config = "tiny.toml") {
    const auto name = run_dir_.filename().string();
    const auto result = ctl("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 " +
                            program() + " slurm " + config + " --job-name " + name + " --run-dir " +
                            run_dir_.string() + " --cpus-per-node 2 " + options + " --submit");
    const auto at = result.text.find("Submitted batch job ");
    EXPECT_NE(at, std::string::npos) << result.text;
    if (at == std::string::npos) return "";
    return std::to_string(std::stoi(result.text.substr(at + 20)));
  }
  std::string said(const std::string& job) const {
    return read_all(folder() / "work" / (run_dir_.filename().string() + "-" + job + ".out"));
  }
  static std::string state(const std::string& job) {
    auto text = ctl("scontrol show job " + job).text;
    const auto at = text.find("JobState=");
    if (at == std::string::npos) return "";
    text.erase(0, at + 9);
    return text.substr(0, text.find_first_of(" \n"));
  }
  bool becomes(const std::string& job, const std::string& wanted, int seconds = 90) const {
    return wait_until([&] { return state(job) == wanted; }, std::chrono::seconds(seconds));
  }
  // On any machine longer than from a job's start to its warning: it is the reward that takes time.
  static std::string slow_configuration() {
    const auto file = write("slow.py",
                            "import time\n\n"
                            "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
                            "    time.sleep(0.008)\n"
                            "    return float(solution_str.startswith(ground_truth[0]))\n");
    return tiny_configuration(kLongSteps, 100) + "[reward.function]\npath = \"" + file +
           "\"\n[reward.scorer]\nnum_workers = 1\n";
  }
  bool begins() const {
    return wait_until([&] { return fs::exists(run_dir_ / "checkpoints" / "step_2" / "manifest.json"); },
                      std::chrono::seconds(60));
  }
  /// Without Slurm, on one host.
  void run_plainly(const std::string& config, const std::string& name) {
    const auto mine = std::exchange(run_dir_, folder() / "work" / name);
    start("h0", "OMP_NUM_THREADS=1 " + program() + " run " + config + " -n 2 --run-dir " + run_dir_.string());
    const auto result = finish(std::chrono::seconds(240));
    EXPECT_EQ(result.status, 0) << result.text;
    run_dir_ = mine;
  }
  /// Of a run on two nodes to which nothing happens.
  std::string undisturbed() {
    static std::string bits;
    if (bits.empty()) {
      const auto mine = std::exchange(run_dir_, folder() / "work" / "undisturbed");
      const auto job = submit("--nodes 2 --nproc-per-node 1 --launcher srun");
      EXPECT_TRUE(becomes(job, "COMPLETED")) << said(job);
      bits = weights(run_dir_, kSteps);
      run_dir_ = mine;
    }
    return bits;
  }
};

TEST_F(Slurm, RunsTheScriptBySrunAndByMpirunWithTheSameBits) {
  const auto job = submit("--nodes 2 --nproc-per-node 1 --launcher mpirun");
  EXPECT_TRUE(becomes(job, "COMPLETED")) << said(job);
  ASSERT_FALSE(undisturbed().empty());
  EXPECT_TRUE(weights(run_dir_, kSteps) == undisturbed());
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Slurm, TheScriptTrainsTheQuickstart) {
  const auto config =
      source_folder() + "/configs/quickstart.toml sft.max_steps=100 trainer.total_training_steps=10";
  const auto job = submit("--nodes 2 --nproc-per-node 1", config);
  EXPECT_TRUE(becomes(job, "COMPLETED", 300)) << said(job);
  EXPECT_NE(said(job).find("step 10/10"), std::string::npos) << said(job);
  EXPECT_NE(said(job).find("accuracy after "), std::string::npos) << said(job);
  run_plainly(config, "quickstart");
  ASSERT_FALSE(weights(run_dir_, 10).empty());
  EXPECT_TRUE(weights(run_dir_, 10) == weights(folder() / "work" / "quickstart", 10));
}

// Nobody but Slurm sends a signal.
TEST_F(Slurm, TheTimeLimitCostsARequeueAndNothingElse) {
  write("long.toml", slow_configuration());
  const auto job = submit("--nodes 2 --nproc-per-node 1 --time 1 --warn 50", "long.toml");
  EXPECT_TRUE(becomes(job, "COMPLETED", 400)) << said(job);
  EXPECT_NE(said(job).find("SIGUSR1: writing a checkpoint, then stopping"), std::string::npos) << said(job);
  EXPECT_NE(said(job).find("goes back into the queue (status 75)"), std::string::npos) << said(job);
  EXPECT_NE(said(job).find("resuming from"), std::string::npos) << said(job);
  EXPECT_EQ(said(job).find("DUE TO TIME LIMIT"), std::string::npos) << said(job);
  run_plainly("long.toml", "long");
  ASSERT_FALSE(weights(run_dir_, kLongSteps).empty());
  EXPECT_TRUE(weights(run_dir_, kLongSteps) == weights(folder() / "work" / "long", kLongSteps));
}

TEST_F(Slurm, RunsOnOneNodeAndOnThree) {
  for (const int nodes : {1, 3}) {
    run_dir_ = folder() / "work" / ("nodes" + std::to_string(nodes));
    const auto job = submit("--nodes " + std::to_string(nodes) + " --nproc-per-node 1");
    EXPECT_TRUE(becomes(job, "COMPLETED")) << said(job);
    EXPECT_FALSE(weights(run_dir_, kSteps).empty());
  }
}

TEST_F(Slurm, WritesACheckpointBeforeTheLimitAndGoesOnAfterARequeue) {
  const auto job = submit("--nodes 2 --nproc-per-node 1 --launcher srun");
  ASSERT_TRUE(begins()) << said(job);
  ctl("scancel --batch --signal=USR1 " + job);  // what Slurm sends before the limit
  EXPECT_TRUE(wait_until([&] {
    return said(job).find("goes back into the queue (status 75)") != std::string::npos;
  })) << said(job);
  EXPECT_TRUE(becomes(job, "COMPLETED")) << said(job);
  EXPECT_NE(said(job).find("resuming from"), std::string::npos) << said(job);
  EXPECT_TRUE(weights(run_dir_, kSteps) == undisturbed());
}

TEST_F(Slurm, ASweepIsAnArrayWithAFolderForEachValue) {
  const auto name = run_dir_.filename().string();
  const auto result =
      ctl("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 " + program() +
          " slurm tiny.toml run.output_dir=" + run_dir_.string() + " --job-name " + name +
          " --cpus-per-node 2 --nodes 1 --nproc-per-node 1 --sweep run.seed=1,2 --submit");
  const auto at = result.text.find("Submitted batch job ");
  ASSERT_NE(at, std::string::npos) << result.text;
  const auto job = std::to_string(std::stoi(result.text.substr(at + 20)));
  const auto end = [&](int task) {
    return weights(run_dir_ / (name + "-" + job + "-" + std::to_string(task)), kSteps);
  };
  EXPECT_TRUE(wait_until([&] { return !end(0).empty() && !end(1).empty(); }, std::chrono::seconds(120)))
      << ctl("scontrol show job " + job).text << said(job + "_0") << said(job + "_1");
  EXPECT_FALSE(end(0) == end(1)) << "each with its own value";
  EXPECT_TRUE(wait_until([&] { return ctl("squeue -h -j " + job).text.find(job) == std::string::npos; }));
}

TEST_F(Slurm, ACancelledJobStaysCancelled) {
  const auto job = submit("--nodes 2 --nproc-per-node 1 --launcher srun");
  ASSERT_TRUE(begins()) << said(job);
  ctl("scancel " + job);
  EXPECT_TRUE(becomes(job, "CANCELLED")) << state(job);
  EXPECT_TRUE(nothing_is_left());
  EXPECT_EQ(said(job).find("goes back"), std::string::npos) << said(job);
}

TEST_F(Slurm, ARankThatIsKilledIsStartedAgainInTheSameJob) {
  const auto job = submit("--nodes 2 --nproc-per-node 1 --launcher srun");
  ASSERT_TRUE(begins()) << said(job);
  ::kill(rank_process(1), SIGKILL);
  EXPECT_TRUE(becomes(job, "COMPLETED")) << said(job);
  EXPECT_NE(said(job).find("rank 1 of 2 on h1 was killed by SIGKILL"), std::string::npos) << said(job);
  EXPECT_NE(said(job).find("restart 1 of 3"), std::string::npos) << said(job);
  EXPECT_TRUE(weights(run_dir_, kSteps) == undisturbed());
}

TEST_F(Slurm, ANodeWithoutPowerAndWithoutASpareOneIsARequeue) {
  const auto expected = undisturbed();
  const auto job = submit("--nodes 2 --nproc-per-node 1 --launcher srun");
  ASSERT_TRUE(begins()) << said(job);
  bed("off", "h1");
  EXPECT_TRUE(becomes(job, "COMPLETED", 240)) << state(job) << said(job);
  EXPECT_NE(said(job).find("was lost with its host"), std::string::npos) << said(job);
  EXPECT_NE(ctl("scontrol show job " + job).text.find("NodeList=h[0,2]"), std::string::npos);
  EXPECT_EQ(ctl("scontrol show job " + job).text.find("Restarts=0"), std::string::npos);
  EXPECT_TRUE(weights(run_dir_, kSteps) == expected);
  bed("on", "h1");
}

// The last one: the node does not come back.
TEST_F(Slurm, ZANodeWithoutPowerIsReplacedByASpareOne) {
  const auto expected = undisturbed();
  const auto job = submit("--nodes 2 --spare 1 --nproc-per-node 1 --launcher srun");
  ASSERT_TRUE(begins()) << said(job);
  bed("off", "h1");
  EXPECT_TRUE(becomes(job, "COMPLETED")) << said(job);
  EXPECT_NE(said(job).find("h1 is left out from here on; a spare host takes its place"), std::string::npos)
      << said(job);
  EXPECT_TRUE(weights(run_dir_, kSteps) == expected);
}

}  // namespace
}  // namespace trireme::testbed
