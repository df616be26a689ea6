// What `trireme` says to who types, without starting anything.
#include "tests/launcher/commands/launch.h"

namespace trireme::commands {
namespace {

class CommandLine : public LaunchTest {
 protected:
  Result trireme(std::vector<std::string> arguments) {
    start(std::move(arguments));
    return finish();
  }
};

TEST_F(CommandLine, WithoutArgumentsShowsWhatThereIs) {
  const auto result = trireme({});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("trireme run"), std::string::npos);
  EXPECT_EQ(result.out.find("guard"), std::string::npos) << "that one is for mpirun";
  EXPECT_EQ(trireme({"--help"}).out, result.out);
}

TEST_F(CommandLine, NamesTheNearestCommandAndOption) {
  auto result = trireme({"rnu", "x.toml"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("did you mean `trireme run`?"), std::string::npos) << result.err;
  result = trireme({"run", "x.toml", "--dryrun"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("did you mean --dry-run?"), std::string::npos) << result.err;
}

TEST_F(CommandLine, HelpsWithEachCommand) {
  for (const char* command : {"run", "plan", "topo", "config", "docs"}) {
    const auto result = trireme({"help", command});
    EXPECT_EQ(result.status, 0) << command;
    EXPECT_NE(result.out.find(std::string("trireme ") + command), std::string::npos) << result.out;
    EXPECT_EQ(result.out.find("rank-program"), std::string::npos);
  }
}

TEST_F(CommandLine, RefusesWhatCannotRun) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"run"}, "no configuration file is named"},
      {{"run", "absent.toml"}, "absent.toml"},
      {{"run", "rollout.n=8", configuration()}, "comes first"},
      {{"run", configuration(), "-n", "0"}, "at least one rank"},
      {{"run", configuration(), "-n", "two"}, "two"},
      {{"run", configuration(), "rollout.m=8"}, "rollout.m"},
      {{"run", configuration(), "-n", "99999", "run.threads_per_rank=0"}, " CPUs for us; ask for at most"},
      {{"run", configuration(), "--nnodes", "2"}, "name the hosts by --hosts or --hostfile"},
      {{"run", configuration(), "--hosts", "a:4,a:4"}, "names a twice"},
      {{"run", configuration(), "--hosts", "a", "--hostfile", "b"}, "give one of them"},
      {{"run", configuration(), "--hostfile", "absent"}, "absent"},
      {{"run", configuration(), "--launcher", "srun"}, "no Slurm allocation"},
      {{"run", configuration(), "--launcher", "ssh"}, "auto, mpirun or srun"},
      {{"run", configuration(), "--stall-timeout", "0"}, "at least 1"},
      {{"config", "sohw", configuration()}, "did you mean show?"},
      {{"docs", "nothing"}, "configuration"},
      {{"guard"}, "started by `trireme run`"}};
  for (const auto& [arguments, message] : wrong) {
    const auto result = trireme(arguments);
    EXPECT_EQ(result.status, message == "absent" ? 1 : 2) << message;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(CommandLine, ADryRunShowsThePlanAndMakesNothing) {
  start_run(script("exit 0"), 2, {"--dry-run"});
  const auto result = finish();
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.err.find("mpirun -np 2"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(run_dir()));
}

TEST_F(CommandLine, RanksMayShareCpusWhenToldTo) {
  start_run(script("exit 0"), 5000, {"--dry-run", "run.threads_per_rank=1"});
  EXPECT_EQ(finish().err.find("this machine has"), std::string::npos);
}

TEST_F(CommandLine, PlanShowsRanksAndRoles) {
  const auto result = trireme({"plan", configuration(), "-n", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("rank  host"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("actor, "), std::string::npos) << result.out;
}

TEST_F(CommandLine, PlanShowsLayoutsAndCommunicators) {
  const auto result = trireme({"plan", configuration(), "-n", "4", "placement.rollout=1,3",
                               "actor.parallel.tp=2", "actor.parallel.zero_stage=2"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* line :
       {"actor      ranks 0-3          dp 2 x tp 2, ZeRO 2", "rollout    ranks 1,3          dp 2 x tp 1",
        "actor.tp                     0-1", "actor.dp                     1,3"})
    EXPECT_NE(result.out.find(line), std::string::npos) << line << "\n" << result.out;
  const auto refused = trireme({"plan", configuration(), "-n", "4", "rollout.parallel.tp=3"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("3 does not divide this role's 4 ranks; these do: 1, 2, 4"), std::string::npos)
      << refused.err;
}

TEST_F(CommandLine, ConfigCheckSaysHowLargeTheKvCacheWillBe) {
  auto result =
      trireme({"config", "check", configuration(), "rollout.kv_cache_tokens=8192", "rollout.page_size=16",
               "rollout.max_model_len=81", "data.max_prompt_length=32", "data.max_response_length=49"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("KV cache: 8192 tokens in 512 pages, "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("room for 85 sequences of 81 tokens"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("gpu_memory_utilization"), std::string::npos) << "tokens alone decide";
  // Ranks of a replica share its kv heads: in the same memory each has room for more tokens.
  const auto sequences = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"config",
                                       "check",
                                       configuration(),
                                       "rollout.kv_cache_memory_gb=0.02",
                                       "rollout.max_num_seqs=1000000",
                                       "model.init.num_attention_heads=4",
                                       "model.init.num_key_value_heads=4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto said = trireme(arguments);
    const size_t at = said.out.find("room for ");
    EXPECT_NE(at, std::string::npos) << said.out << said.err;
    return at == std::string::npos ? 0 : std::stoi(said.out.substr(at + 9));
  };
  const int whole = sequences({}), half = sequences({"rollout.parallel.tp=2"});
  EXPECT_GT(whole, 0);
  EXPECT_NEAR(half, 2 * whole, 1);
  result = trireme({"config", "check", configuration(), "run.device=cpu"});
  EXPECT_NE(result.out.find("GiB of this machine"), std::string::npos) << result.out;
  result = trireme({"config", "check", configuration(), "run.device=cuda"});
  EXPECT_NE(result.out.find("rollout.gpu_memory_utilization = 0.5 of the GPU's memory"), std::string::npos)
      << result.out << result.err;
  result = trireme({"config", "check", configuration(), "rollout.kv_cache_memory_gb=0.000001"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("rollout.kv_cache_memory_gb"), std::string::npos) << result.err;
}

TEST_F(CommandLine, ConfigCheckSaysWhichLayoutsDoNotFitTheModel) {
  const auto result = trireme({"config", "check", configuration(), "run.ranks=12", "actor.parallel.pp=6",
                               "rollout.parallel.tp=3", "reference.parallel.pp=4"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("actor.parallel.pp: 6 stages need a layer each, and the model has 4"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("rollout.parallel.tp: 3 ranks cannot share out"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("reference"), std::string::npos) << result.err;
}

TEST_F(CommandLine, ConfigChecksShowsAndExplains) {
  EXPECT_EQ(trireme({"config", "check", configuration()}).status, 0);
  const auto shown = trireme({"config", "show", configuration(), "run.seed=123"});
  EXPECT_NE(shown.out.find("seed = 123"), std::string::npos) << shown.out;
  EXPECT_EQ(trireme({"config", "explain", "rollout.n"}).status, 0);
  EXPECT_EQ(trireme({"config", "explain", "rolout.n"}).status, 2);
  EXPECT_NE(trireme({"config", "explain"}).out.find("[rollout]"), std::string::npos);
}

TEST_F(CommandLine, ItsOwnStatusesAreDocumented) {
  const auto text = read_all(source_folder() + "/docs/exit-codes.md");
  for (const char* status : {"| 0 |", "| 1 |", "| 2 |", "| 3 |", "| 4 |", "| 75 |", "| 130 |"})
    EXPECT_NE(text.find(status), std::string::npos) << status;
}

}  // namespace
}  // namespace trireme::commands
