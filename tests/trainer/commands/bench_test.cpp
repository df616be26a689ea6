// `trireme bench`: it runs, and says what it measured. What the figures are is the machine's affair.
#include "tests/trainer/commands/model_folder.h"

namespace trireme::commands {
namespace {

using Bench = ModelFolderTest;

TEST_F(Bench, MeasuresGenerationAndTraining) {
  const std::string shape = make_model("model") + "/config.json";
  for (const char* what : {"rollout", "train-step"})
    for (const char* dtype : {"float32", "bfloat16"}) {
      const auto result = command({"bench", what, "--shape", shape, "--batch", "2", "--context", "8",
                                   "--new-tokens", "40", "--dtype", dtype, "--threads", "1", "--json"});
      ASSERT_EQ(result.status, 0) << result.err;
      const Json figures = Json::parse(result.out);
      EXPECT_EQ(figures["threads"], 1);
      EXPECT_EQ(figures["parameters"], shape_.num_parameters());
      for (const char* name : {"memory_gb_per_second", "product_gflops", "peak_gb"})
        EXPECT_GT(figures[name].get<double>(), 0) << name;
      for (const char* name : {"tokens_per_second", "step_ms", "share_of_product_limit"})
        EXPECT_TRUE(figures[name].is_number()) << name;
    }
}

TEST_F(Bench, TheMostHeldIsNoLessThanWhatIsHeldInTheEnd) {
  const std::string shape = make_model("model") + "/config.json";
  const auto result = command({"bench", "train-step", "--shape", shape, "--batch", "2", "--context", "8",
                               "--threads", "1", "--memory", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json figures = Json::parse(result.out);
  const auto gb = [&](const char* name) { return figures[name].get<double>(); };
  EXPECT_GT(gb("training_gb"), gb("state_gb") - 0.001);  // some pages are counted late
}

TEST_F(Bench, WhatCannotBeMeasuredIsSaid) {
  const std::string shape = make_model("model");
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"bench"}, "say what is to be measured"},
      {{"bench", "rolout", "--shape", shape}, "say what is to be measured"},
      {{"bench", "rollout"}, "no shape is named"},
      {{"bench", "rollout", "--shape", "nothing.json"}, "cannot read nothing.json"},
      {{"bench", "rollout", "--shape", file("bad.json", "{")}, "is not valid JSON"},
      {{"bench", "rollout", "--shape", shape, "--context", "120"}, "more than the model takes, 128"},
      {{"bench", "rollout", "--shape", shape, "--batch", "0"}, "--batch 0"},
      {{"bench", "rollout", "--shape", shape, "--dtype", "int8"}, "none of float32, bfloat16"},
      {{"bench", "train-step", "--shape", shape, "--context", "64", "--pp", "2"},
       "--pp 2 x --cp 1 x --tp 1 does not divide 1 ranks"},
      {{"bench", "train-step", "--shape", shape, "--context", "64", "--pp", "2", "--zero-stage", "3"},
       "--zero-stage 3 does not go with --pp 2"}};
  for (const auto& [arguments, message] : wrong) {
    const auto result = command(arguments);
    EXPECT_NE(result.status, 0);
    EXPECT_NE(result.err.find(message), std::string::npos) << message << "\n" << result.err;
  }
}

}  // namespace
}  // namespace trireme::commands
