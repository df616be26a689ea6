#include "trainer/costs/model_shape.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "trainer/models/parameter_spec.h"

namespace trireme::costs {
namespace {

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "model_shape_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  void write(const std::string& text) const { std::ofstream(path_ + "/config.json") << text; }

 private:
  const std::string path_;
};

nlohmann::json config_of(const std::string& family, bool tied, int64_t vocab, int64_t kv_heads) {
  nlohmann::json config = {{"model_type", family},
                           {"vocab_size", vocab},
                           {"hidden_size", 96},
                           {"intermediate_size", 128},
                           {"num_hidden_layers", 3},
                           {"num_attention_heads", 8},
                           {"num_key_value_heads", kv_heads},
                           {"max_position_embeddings", 64},
                           {"tie_word_embeddings", tied}};
  if (family == "qwen3") config["head_dim"] = 16;
  return config;
}

TEST(ModelShape, CountsWhatTheTrainerAllocatesInAnyTensorParallelLayout) {
  const Folder folder;
  for (const std::string family : {"qwen2", "qwen3", "llama"})
    for (const bool tied : {false, true})
      for (const int64_t vocab : {259, 1000, 32000})
        for (const int64_t kv_heads : {2, 8}) {
          const auto config = config_of(family, tied, vocab, kv_heads);
          folder.write(config.dump());
          models::ModelConfig model;
          model.path = folder.path();
          const ModelShape said = model_shape(model);
          const auto shape = models::DecoderShape::from_json(config, "config.json");
          EXPECT_EQ(said.num_parameters(), shape.num_parameters()) << config;
          for (const int tp : {1, 2, 4, 8}) {
            const SliceSizes sizes = slice_sizes(said, tp);
            std::vector<int64_t> blocks;
            for (const auto& spec : models::parameter_specs(shape, tp, 0)) {
              if (static_cast<size_t>(spec.block) == blocks.size()) blocks.push_back(0);
              blocks.back() += spec.numel();
            }
            EXPECT_EQ(sizes.embedding, blocks.front()) << config << " tp " << tp;
            EXPECT_EQ(sizes.layer, blocks[1]) << config << " tp " << tp;
            EXPECT_EQ(sizes.last, blocks.back()) << config << " tp " << tp;
          }
        }
}

TEST(ModelShape, PublishedShapesHaveTheParametersOfTheirNames) {
  for (const std::string& name : published_shapes()) {
    const double billions = std::stod(name.substr(name.rfind('-') + 1));
    // Names leave out embeddings, or round: Qwen2.5-3B has 3.09, Llama-3.2-1B 1.24.
    const double real = static_cast<double>(find_shape(name).num_parameters()) / 1e9;
    EXPECT_GT(real, 0.95 * billions) << name;
    EXPECT_LT(real, 1.27 * billions) << name;
  }
  EXPECT_EQ(find_shape("llama-3.1-70b").num_parameters(), 70553706496);
  EXPECT_EQ(find_shape("qwen2.5-0.5b").num_parameters(), 494032768);
}

TEST(ModelShape, ReadsTheShapeFromACheckpoint) {
  const Folder folder;
  models::ModelConfig model;
  model.path = folder.path();
  auto config = config_of("llama", false, 259, 2);
  folder.write(config.dump());
  EXPECT_EQ(model_shape(model).kv_bytes_per_token(2), 2 * 3 * 2 * 12 * 2);
  EXPECT_EQ(model_shape(model).kv_bytes_per_token(2, 8), 2 * 3 * 1 * 12 * 2);  // one head at least
  config.erase("num_key_value_heads");
  config["head_dim"] = 32;
  folder.write(config.dump());
  EXPECT_EQ(model_shape(model).kv_bytes_per_token(4), 2 * 3 * 8 * 32 * 4);
  config["num_hidden_layers"] = -3;
  config["num_attention_heads"] = "6";
  folder.write(config.dump());
  try {
    model_shape(model);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    for (const char* named : {"config.json", "num_hidden_layers", "num_attention_heads"})
      EXPECT_NE(error.message().find(named), std::string::npos) << error.message();
  }
  folder.write("[1");
  EXPECT_THROW(model_shape(model), Error);
}

TEST(ModelShape, AnUnknownNameIsAnsweredWithTheNearest) {
  try {
    find_shape("llama-3.1-7b");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("llama-3.1-8b"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace trireme::costs
