#include "trainer/models/decoder_shape.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"

namespace trireme::models {
namespace {

using nlohmann::json;
using testing::AssertionResult;

json qwen2() {
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
          {"use_sliding_window", false},
          {"sliding_window", 131072},
          {"max_window_layers", 21},
          {"transformers_version", "4.40.1"}};
}

json qwen3() {
  json config = qwen2();
  config.update({{"architectures", {"Qwen3ForCausalLM"}},
                 {"model_type", "qwen3"},
                 {"attention_bias", false},
                 {"sliding_window", nullptr}});
  return config;
}

json llama() {
  json config = qwen2();
  for (const char* name : {"use_sliding_window", "sliding_window", "max_window_layers"}) config.erase(name);
  config.update({{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"attention_bias", false},
                 {"mlp_bias", false},
                 {"pretraining_tp", 1},
                 {"eos_token_id", {1, 2}}});
  return config;
}

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

DecoderShape read(const json& config) {
  return DecoderShape::from_json(config, "config.json");
}

/// What from_json says of it, or "".
std::string refusal(const json& config) {
  try {
    (void)read(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return error.what();
  }
  return {};
}

AssertionResult says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos)
      return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
  return testing::AssertionSuccess();
}

TEST(DecoderShape, EachFamilySaysWhichBiasesNormsAndHeadsItHas) {
  const DecoderShape a = read(qwen2());
  EXPECT_TRUE(a.qkv_bias && !a.attention_output_bias && !a.qk_norm);
  EXPECT_EQ(a.head_dim, 2);
  const DecoderShape b = read(qwen3());
  EXPECT_TRUE(!b.qkv_bias && !b.attention_output_bias && b.qk_norm);
  EXPECT_EQ(b.head_dim, 128);  // this family's default does not follow from hidden_size
  const DecoderShape c = read(with(llama(), {{"attention_bias", true}, {"head_dim", 6}}));
  EXPECT_TRUE(c.qkv_bias && c.attention_output_bias && !c.qk_norm);
  EXPECT_EQ(c.head_dim, 6);
  json without = llama();
  without.erase("num_key_value_heads");
  EXPECT_EQ(read(without).num_key_value_heads, 14);
}

TEST(DecoderShape, PublishedConfigurationsAreRead) {
  const char* data = std::getenv("TRIREME_TEST_DATA");
  const auto folder = std::filesystem::path(data ? data : "") / "models";
  if (!data || !std::filesystem::exists(folder))
    GTEST_SKIP() << "models: TRIREME_TEST_DATA does not name a folder that has it";
  const std::map<std::string, int64_t> parameters = {{"qwen2.5-0.5b", 494032768},
                                                     {"qwen2.5-1.5b", 1543714304},
                                                     {"qwen2.5-7b", 7615616512},
                                                     {"qwen3-0.6b", 596049920},
                                                     {"llama-3.2-1b", 1235814400}};
  for (const auto& [name, count] : parameters)
    EXPECT_EQ(DecoderShape::from_folder((folder / name).string()).num_parameters(), count) << name;
  const DecoderShape shape = DecoderShape::from_folder((folder / "llama-3.2-1b").string());
  EXPECT_EQ(shape.rope_scaling.type, RopeScaling::Type::llama3);
  EXPECT_EQ(shape.rope_scaling.factor, 32.0);
  EXPECT_EQ(shape.rope_theta, 500000.0);
}

TEST(DecoderShape, WhatAsksForSomethingElseIsRefusedByName) {
  EXPECT_EQ(refusal(qwen2()), "");
  const std::vector<std::pair<json, std::vector<std::string>>> cases = {
      {with(qwen2(), {{"model_type", "mistral"}}), {"model_type", "'mistral'", "llama"}},
      {with(qwen2(), {{"architectures", {"Qwen2ForSequenceClassification"}}}),
       {"architectures", "Qwen2ForCausalLM"}},
      {with(qwen2(), {{"use_sliding_window", true}}), {"use_sliding_window"}},
      {with(qwen2(), {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}}),
       {"layer_types", "sliding_attention"}},
      {with(qwen2(), {{"hidden_act", "gelu"}}), {"hidden_act", "gelu", "silu"}},
      {with(qwen2(), {{"use_mrope", true}}), {"use_mrope"}},
      {with(qwen2(), {{"attention_dropout", 0.1}}), {"attention_dropout"}},
      {with(qwen2(), {{"quantization_config", {{"bits", 4}}}}), {"quantization_config", "quantized"}},
      {with(qwen2(), {{"num_experts", 8}}), {"num_experts", "experts"}},
      {with(qwen2(), {{"auto_map", {{"AutoModel", "x.py"}}}}), {"auto_map", "code"}},
      {with(qwen2(), {{"attention_bias", false}}), {"attention_bias", "not a field"}},  // of other families
      {with(qwen2(), {{"rms_norm_epsilon", 1e-5}}), {"rms_norm_epsilon", "'rms_norm_eps' meant"}},
      {with(qwen2(), {{"logit_scale", 0.5}}), {"logit_scale"}},
      {with(llama(), {{"mlp_bias", true}}), {"mlp_bias"}},
      {with(llama(), {{"pretraining_tp", 2}}), {"pretraining_tp"}},
      {with(llama(), {{"rope_interleaved", true}}), {"rope_interleaved"}},
      {with(llama(), {{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor"}},
  };
  for (const auto& [config, parts] : cases) EXPECT_TRUE(says(refusal(config), parts));
}

TEST(DecoderShape, FieldsThatChangeNothingAreTaken) {
  const json harmless = {{"_name_or_path", "x"},
                         {"bos_token_id", 1},
                         {"eos_token_id", {1, 2}},
                         {"torch_dtype", "bfloat16"},
                         {"use_cache", true},
                         {"attention_dropout", 0.0},
                         {"rope_scaling", nullptr},
                         {"temperature", 0.7},
                         {"quantization_config", nullptr},
                         {"layer_types", {"full_attention", "full_attention"}}};
  for (const json& config : {qwen2(), qwen3(), llama()}) EXPECT_EQ(refusal(with(config, harmless)), "");
  EXPECT_EQ(refusal(with(qwen2(), {{"use_mrope", false}})), "");
}

TEST(DecoderShape, EveryMistakeIsListed) {
  json config = with(qwen2(), {{"vocab_size", -3},
                               {"num_hidden_layers", 1e30},
                               {"num_attention_heads", 18446744073709551615u},
                               {"rms_norm_eps", "small"},
                               {"tie_word_embeddings", 1},
                               {"sliding_windows", 4}});
  config.erase("hidden_size");
  EXPECT_TRUE(says(refusal(config), {"vocab_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps",
                                     "tie_word_embeddings", "sliding_windows", "hidden_size: is missing"}));
  EXPECT_TRUE(says(refusal(with(qwen2(), {{"num_key_value_heads", 3}})), {"num_key_value_heads", "14"}));
  EXPECT_TRUE(says(refusal(with(qwen2(), {{"head_dim", 3}})), {"head_dim"}));
  EXPECT_TRUE(says(refusal(json::array()), {"object"}));
}

TEST(DecoderShape, RopeIsReadInItsOlderAndNewerForm) {
  const json yarn = {{"factor", 4.0}, {"original_max_position_embeddings", 128}};
  const DecoderShape old_form = read(with(qwen2(), {{"rope_scaling", with(yarn, {{"type", "yarn"}})}}));
  json config =
      with(qwen2(), {{"rope_parameters", with(yarn, {{"rope_type", "yarn"}, {"rope_theta", 1e6}})}});
  config.erase("rope_theta");
  const DecoderShape new_form = read(config);
  for (const DecoderShape& shape : {old_form, new_form}) {
    EXPECT_EQ(shape.rope_scaling.type, RopeScaling::Type::yarn);
    EXPECT_EQ(shape.rope_scaling.original_max_positions, 128);
    EXPECT_NEAR(shape.rope_scaling.attention_factor, 1.138629436, 1e-9);
    EXPECT_EQ(shape.rope_theta, 1e6);
    EXPECT_EQ(shape.max_position_embeddings, 512);  // YaRN's length, though the field says less
  }
  // The original length is the model's where nothing else is said, and the field beside the object comes
  // first.
  EXPECT_EQ(read(with(qwen2(), {{"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}}))
                .rope_scaling.original_max_positions,
            256);
  EXPECT_EQ(read(with(qwen2(), {{"original_max_position_embeddings", 64},
                                {"rope_scaling", with(yarn, {{"type", "yarn"}})}}))
                .rope_scaling.original_max_positions,
            64);
}

TEST(DecoderShape, OtherRopesAreRefusedByName) {
  const std::vector<std::pair<json, std::vector<std::string>>> cases = {
      {{{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}},
       {"rope_scaling.rope_type", "'dynamic'", "yarn"}},
      {{{"rope_scaling", {{"rope_type", "longrope"}, {"short_factor", {1}}, {"long_factor", {1}}}}},
       {"'longrope'"}},
      {{{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 2}}}}}, {"'mrope'"}},
      {{{"rope_scaling", {{"type", "linear"}}}}, {"rope_scaling.factor: is missing"}},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}, {"rope_scaling.factor"}},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"facto", 3}}}},
       {"rope_scaling.facto", "factor"}},
      {{{"rope_scaling", {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2}}}}, {"rope_scaling.type"}},
      {{{"rope_scaling", {{"factor", 2}}}}, {"rope_scaling.factor"}},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 2}}}}, {"low_freq_factor", "high_freq_factor"}},
      {{{"rope_scaling", "linear"}}, {"rope_scaling", "object"}},
      {{{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5.0}}}},
       {"rope_parameters.rope_theta", "differs"}},
      {{{"rope_parameters", {{"rope_type", "default"}}},
        {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}},
       {"rope_scaling", "differs"}},
      {{{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}},
       {"rope_parameters.full_attention"}},
  };
  for (const auto& [changes, parts] : cases) EXPECT_TRUE(says(refusal(with(qwen2(), changes)), parts));
}

TEST(DecoderShape, GivesBackTheConfigItWasReadFromWithAnotherDtype) {
  for (const char* field : {"dtype", "torch_dtype"}) {
    const json written = read(with(qwen2(), {{field, "float16"}})).to_json("bfloat16");
    EXPECT_EQ(written, with(qwen2(), {{field, "bfloat16"}}));
  }
  EXPECT_EQ(json(read(qwen2()).to_json("float32")), with(qwen2(), {{"torch_dtype", "float32"}}));
}

TEST(DecoderShape, AModelMadeHereIsWrittenSoThatItIsReadAsItWas) {
  for (const char* type : {"qwen2", "qwen3", "llama"})
    for (const auto scaling : {RopeScaling::Type::none, RopeScaling::Type::linear, RopeScaling::Type::llama3,
                               RopeScaling::Type::yarn}) {
      DecoderShape shape = read(with(std::string(type) == "qwen2"   ? qwen2()
                                     : std::string(type) == "qwen3" ? qwen3()
                                                                    : llama(),
                                     {{"head_dim", 6}}));
      shape.config_text.clear();
      shape.rope_scaling = {scaling, 2.5, 200, 1.5, 3.0, 16.0, 2.0, false, 1.25};
      if (scaling == RopeScaling::Type::none) shape.rope_scaling = {};
      const DecoderShape again = read(shape.to_json("bfloat16"));
      EXPECT_EQ(json(again.to_json("bfloat16")), json(shape.to_json("bfloat16")));
      EXPECT_EQ(again.num_parameters(), shape.num_parameters());
      EXPECT_EQ(again.rope_scaling.type, scaling);
    }
}

}  // namespace
}  // namespace trireme::models
