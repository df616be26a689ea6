// `trireme export` through the real command.
#include <ATen/ops/equal.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/trainer/commands/model_folder.h"
#include "trainer/weights/tensors.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;

class Export : public ModelFolderTest {
 protected:
  at::Tensor weights_of(const std::string& folder) const {
    models::ParameterSet read(models::parameter_specs(shape_), at::kCPU);
    weights::load(folder, shape_, read);
    return read.flat();
  }
  /// What the trainer writes: bf16 for others, fp32 masters for itself.
  std::string make_checkpoint(const std::string& run, int64_t step) {
    const std::string made = make_model("made", at::kBFloat16),
                      folder = run + "/checkpoints/step_" + std::to_string(step);
    fs::create_directories(run + "/checkpoints");
    checkpoint::write_folder(folder, [&](const std::string& inside) {
      for (const auto& entry : fs::directory_iterator(made))
        fs::copy(entry, fs::path(inside) / entry.path().filename());
      fs::create_directories(inside + "/trainer/masters");
      weights::save_file(inside + "/trainer/masters/model.safetensors", shape_, parameters(), at::kFloat);
    });
    return folder;
  }
};

TEST_F(Export, ACheckpointLosesNothingButTheTraining) {
  const std::string checkpoint = make_checkpoint(folder_ / "run", 3);
  ASSERT_EQ(command({"export", checkpoint, "exported"}).status, 0);
  for (const char* name : {"model.safetensors", "tokenizer.json", "tokenizer_config.json",
                           "chat_template.jinja", "generation_config.json", "config.json"})
    EXPECT_EQ(read_all(folder_ / "exported" / name), read_all(fs::path(checkpoint) / name)) << name;
  EXPECT_FALSE(fs::exists(folder_ / "exported/trainer"));
}

TEST_F(Export, ARunsNewestCheckpointIsTaken) {
  make_checkpoint(folder_ / "run", 3);
  make_checkpoint(folder_ / "run", 20);
  const auto result = command({"export", "run", "exported"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("step_20"), std::string::npos) << result.out;
}

TEST_F(Export, Fp32ComesFromTheMasters) {
  make_checkpoint(folder_ / "run", 3);
  ASSERT_EQ(command({"export", "run", "fp32", "--dtype", "float32"}).status, 0);
  EXPECT_TRUE(at::equal(weights_of(folder_ / "fp32"), parameters().flat()));
  ASSERT_EQ(command({"export", "run", "fp16", "--dtype", "float16", "--max-shard-size", "10KB"}).status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "fp16/model.safetensors.index.json"));
  EXPECT_TRUE(at::equal(weights_of(folder_ / "fp16"), parameters().flat().to(at::kHalf).to(at::kFloat)));
  const auto config = Json::parse(read_all(folder_ / "fp16/config.json"));
  EXPECT_EQ(config.contains("dtype") ? config["dtype"] : config["torch_dtype"], "float16");
}

TEST_F(Export, WhatCannotBeDoneIsSaid) {
  const std::string model = make_model("model");
  fs::create_directory(folder_ / "empty");
  file("some", "");
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"export", "model"}, "two folders are needed"},
      {{"export", "nowhere", "exported"}, "'nowhere' does not exist"},
      {{"export", "empty", "exported"}, "holds no complete checkpoint"},
      {{"export", "model", "model"}, "is the source itself"},
      {{"export", "model", "some"}, "is a file"},
      {{"export", "model", "exported", "--dtype", "int4"}, "none of float32, bfloat16, float16"},
      {{"export", "model", "exported", "--max-shard-size", "large"}, "no size, such as 5GB"}};
  for (const auto& [arguments, message] : wrong) {
    const auto result = command(arguments);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << message << "\n" << result.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "exported"));
  ASSERT_EQ(command({"export", "model", "empty"}).status, 0);
  EXPECT_EQ(command({"export", "model", "empty"}).status, 2);
  EXPECT_EQ(command({"export", "model", "empty", "--overwrite"}).status, 0);
}

TEST_F(Export, ADamagedCheckpointIsRefused) {
  const std::string checkpoint = make_checkpoint(folder_ / "run", 3);
  std::ofstream(checkpoint + "/model.safetensors", std::ios::app) << "x";
  const auto result = command({"export", checkpoint, "exported"});
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.err.find("model.safetensors"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(folder_ / "exported"));
}

}  // namespace
}  // namespace trireme::commands
