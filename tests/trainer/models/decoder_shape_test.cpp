#include "trainer/models/decoder_shape.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

using nlohmann::ordered_json;

ordered_json qwen2() {
  return {{"architectures", {"Qwen2ForCausalLM"}},
          {"model_type", "qwen2"},
          {"vocab_size", 61},
          {"hidden_size", 28},
          {"intermediate_size", 36},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 14},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 256},
          {"rope_theta", 1000000.0},
          {"transformers_version", "4.40.1"}};
}

TEST(DecoderShape, GivesBackTheConfigItWasReadFromWithAnotherDtype) {
  for (const char* field : {"dtype", "torch_dtype"}) {
    ordered_json config = qwen2();
    config[field] = "float16";
    const ordered_json written = DecoderShape::from_json(config, "config.json").to_json("bfloat16");
    config[field] = "bfloat16";
    EXPECT_EQ(nlohmann::json(written), nlohmann::json(config));
  }
  ordered_json config = qwen2();
  const ordered_json written = DecoderShape::from_json(config, "config.json").to_json("float32");
  config["torch_dtype"] = "float32";
  EXPECT_EQ(nlohmann::json(written), nlohmann::json(config));
}

}  // namespace
}  // namespace trireme::models
