// `trireme plan` for machines that are not here.
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/launcher/commands/launch.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::commands {
namespace {

using nlohmann::json;

class Plan : public LaunchTest {
 protected:
  Result plan(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "plan");
    start(std::move(arguments));
    return finish();
  }
  std::string config() const { return source() + "/configs/gsm8k-grpo-7b-8gpu.toml"; }
  static std::string source() { return std::getenv("TRIREME_SOURCE_DIR"); }
};

TEST_F(Plan, SaysWhatAConfigurationTakesOnAMachineElsewhere) {
  const auto result = plan({config(), "--machine", "8xH200", "rollout.gpu_memory_utilization=0.8"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"7.62 billion parameters", "8 x H200", "actor state", "reference weights", "KV cache", "update_actor",
        "largest micro-batch", "what would help most", "rules of thumb", "device-hours", "fitted", "assumed"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_EQ(result.out.find("DOES NOT FIT"), std::string::npos) << result.out;
}

TEST_F(Plan, GivesProgramsTheSameNumbers) {
  const auto result = plan({config(), "--machine", "8xH200", "--json", "rollout.gpu_memory_utilization=0.8"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json all = json::parse(result.out);
  EXPECT_EQ(all["ranks"], 8);
  EXPECT_TRUE(all["outcome"]["fits"]);
  double stages = 0;
  for (const auto& stage : all["outcome"]["stages"]) stages += stage["seconds"].get<double>();
  EXPECT_NEAR(stages, all["outcome"]["step_seconds"].get<double>(), 1e-6 * stages);
  for (const auto& constant : all["constants"]) EXPECT_FALSE(constant["source"].get<std::string>().empty());
}

TEST_F(Plan, NeedsNoClusterToRefuseWhatDoesNotFit) {
  const auto result = plan({config(), "--machine", "8x3090"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("DOES NOT FIT: ranks 0 to 7 need"), std::string::npos) << result.out;
}

TEST_F(Plan, ExploresSeventyBillionOn512GpusInSeconds) {
  const auto result = plan({"--explore", "--model", "llama-3.1-70b", "--machine", "64x8xH100"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("  1. "), std::string::npos) << result.out;
  const auto why = result.out.find("why the first\n");
  ASSERT_NE(why, std::string::npos);
  EXPECT_EQ(std::count(result.out.begin() + static_cast<long>(why), result.out.end(), '\n'), 6);
}

TEST_F(Plan, TakesARecordedMachine) {
  const topology::FakeRoot root(R"(
host recorded
cpus 8
node 0 cpus=0-7
gpu 0000:13:00.0 vendor=nvidia node=0 under=pci0000:10/0000:10:01.0
hca mlx5_0 at=0000:14:00.0 node=0 under=pci0000:10/0000:10:01.1
port 1 layer=ib rate=400
)");
  const auto result = plan({"--topo", root.path(), "--model", "qwen2.5-0.5b"});
  EXPECT_EQ(result.status, 2);  // its GPU has no name
  EXPECT_NE(result.err.find("say what they are by --machine"), std::string::npos) << result.err;
}

TEST_F(Plan, ComparesWithPublishedRuns) {
  const auto result = plan({"--against", source() + "/docs/published-runs.json", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json all = json::parse(result.out);
  EXPECT_GE(all["comparisons"].size(), 30u);
  EXPECT_LT(all["median_factor_predicted"].get<double>(), 1.35);
}

TEST_F(Plan, BadInputIsNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--machine", "8xH1000", "--model", "qwen2.5-7b"}, "H100"},
      {{"--machine", "8xH100", "--model", "qwen2.5-8b"}, "did you mean qwen2.5-"},
      {{"--machine", "8xH100"}, "neither a CONFIG nor --model"},
      {{"--explore", "--model", "qwen2.5-7b"}, "--machine 8xH100"},
      {{"--machine", "8xH100", "--model", "qwen2.5-7b", "-n", "9"}, "has 8 devices"},
      {{"--machine", "8xH100", "--nodes", "0", "--model", "qwen2.5-7b"}, "at least 1"},
      {{"--machine", "8xH100", "--topo", "x", "--model", "qwen2.5-7b"}, "give one of them"},
      {{"--machine", "8xH100", "--model", "qwen2.5-7b", "--response-tokens", "-4"}, "above 0"},
      {{"--against", "/nowhere.json"}, "/nowhere.json"},
      {{config(), "--machine", "8xH100", "actor.parallel.tp=3"}, "3 does not divide"},
  };
  for (const auto& [arguments, named] : cases) {
    const auto result = plan(arguments);
    EXPECT_NE(result.status, 0) << named;
    EXPECT_NE(result.err.find(named), std::string::npos) << named << "\n" << result.err << result.out;
  }
}

}  // namespace
}  // namespace trireme::commands
