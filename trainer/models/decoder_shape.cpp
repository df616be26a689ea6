#include "trainer/models/decoder_shape.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/models/family.h"
#include "trainer/models/parameter_spec.h"

namespace trireme::models {
namespace {

// Beyond these a config.json is not of a model but damaged; a tensor's size stays far from int64's end.
constexpr int64_t kMaxVocabulary = 1 << 26, kMaxWidth = 1 << 22, kMaxLayers = 1 << 14, kMaxHeads = 1 << 16,
                  kMaxPositions = 1 << 30;

// "Qwen2ForCausalLM" -> "Qwen2ForTokenClassification".
std::string architecture_for(const Family& family, const char* task) {
  const std::string name = family.architecture;
  return name.substr(0, name.rfind("For")) + task;
}

constexpr const char* kOfTokens = "ForTokenClassification";
constexpr const char* kOfSequences = "ForSequenceClassification";

const Family* read_family(ConfigFields& fields, DecoderShape& shape) {
  shape.model_type = fields.text("model_type", "");
  const Family* family = find_family(shape.model_type);
  std::string supported;
  for (const Family* known : families())
    supported +=
        fmt::format("{}{} ({})", supported.empty() ? "" : ", ", known->model_type, known->architecture);
  if (!family)
    fields.mistake("model_type",
                   fmt::format("'{}' is not supported; supported: {}", shape.model_type, supported));
  const nlohmann::json& architectures = fields.value("architectures");
  const auto is = [&](const std::string& name) { return architectures == nlohmann::json::array({name}); };
  const bool known = family && (architectures.is_null() || is(family->architecture) ||
                                (shape.head == Head::value && (is(architecture_for(*family, kOfTokens)) ||
                                                               is(architecture_for(*family, kOfSequences)))));
  if (family && !known)
    fields.mistake("architectures",
                   fmt::format("{} is not supported; supported: {}", shown(architectures), supported));
  return family;
}

// Fields of any family that must ask for nothing special, or that concern other things than the decoder.
void check_shared_fields(ConfigFields& fields) {
  fields.must_be("hidden_act", {"silu"});
  fields.must_be("attention_dropout", {0});
  fields.must_be("partial_rotary_factor", {1});
  fields.must_be("chunk_size_feed_forward", {0});
  fields.must_be("is_encoder_decoder", {false});
  fields.must_be("add_cross_attention", {false});
  if (const auto& types = fields.value("layer_types"); types.is_array()) {
    for (const auto& type : types)
      if (type != "full_attention") {
        fields.mistake("layer_types",
                       shown(type) + " is not supported; every layer must be \"full_attention\"");
        break;
      }
  } else if (!types.is_null()) {
    fields.mistake("layer_types", "must be a list, is " + shown(types));
  }
  const std::string quantized =
      "quantized weights are not supported; take the checkpoint in bf16, fp16 or fp32";
  for (const char* name : {"quantization_config", "quantization", "compression_config"})
    fields.refuse(name, quantized);
  for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok",
                           "moe_intermediate_size"})
    fields.refuse(name, "mixtures of experts are not supported");
  for (const char* name : {"vision_config", "audio_config", "text_config"})
    fields.refuse(name, "only text models are supported");
  fields.refuse("auto_map", "the checkpoint wants code of its own, which is not run");

  fields.harmless({"dtype", "torch_dtype", "transformers_version", "_name_or_path", "name_or_path",
                   "_commit_hash", "use_cache", "attn_implementation", "_attn_implementation",
                   "_attn_implementation_autoset", "_flash_attn_2_enabled", "torchscript", "use_bfloat16",
                   "gradient_checkpointing", "unsloth_version", "unsloth_fixed"});
  // Tokens, and tasks of other heads than the language model's.
  fields.harmless({"bos_token_id",
                   "eos_token_id",
                   "pad_token_id",
                   "unk_token_id",
                   "sep_token_id",
                   "decoder_start_token_id",
                   "tokenizer_class",
                   "prefix",
                   "is_decoder",
                   "finetuning_task",
                   "task_specific_params",
                   "problem_type",
                   "id2label",
                   "label2id",
                   "num_labels",
                   "return_dict",
                   "output_hidden_states",
                   "output_attentions",
                   "output_router_logits",
                   "tie_encoder_decoder",
                   "cross_attention_hidden_size"});
  // Defaults of generation, which older checkpoints kept here.
  fields.harmless({"do_sample",
                   "temperature",
                   "top_k",
                   "top_p",
                   "typical_p",
                   "min_p",
                   "epsilon_cutoff",
                   "eta_cutoff",
                   "repetition_penalty",
                   "length_penalty",
                   "diversity_penalty",
                   "encoder_no_repeat_ngram_size",
                   "no_repeat_ngram_size",
                   "bad_words_ids",
                   "suppress_tokens",
                   "begin_suppress_tokens",
                   "forced_bos_token_id",
                   "forced_eos_token_id",
                   "num_beams",
                   "num_beam_groups",
                   "num_return_sequences",
                   "early_stopping",
                   "exponential_decay_length_penalty",
                   "max_length",
                   "min_length",
                   "max_new_tokens",
                   "output_scores",
                   "return_dict_in_generate",
                   "remove_invalid_values"});
}

}  // namespace

DecoderShape DecoderShape::from_json(const nlohmann::json& config, const std::string& where, Head head) {
  if (!config.is_object()) fail(ErrorCode::invalid_config, "{}: must hold a JSON object", where);
  Mistakes mistakes;
  ConfigFields fields(config, mistakes);
  DecoderShape shape;
  shape.head = head;
  const Family* family = read_family(fields, shape);
  shape.vocab_size = fields.count("vocab_size", kMaxVocabulary);
  shape.hidden_size = fields.count("hidden_size", kMaxWidth);
  shape.intermediate_size = fields.count("intermediate_size", kMaxWidth);
  shape.num_hidden_layers = fields.count("num_hidden_layers", kMaxLayers);
  shape.num_attention_heads = fields.count("num_attention_heads", kMaxHeads);
  shape.num_key_value_heads = fields.count("num_key_value_heads", kMaxHeads, shape.num_attention_heads);
  shape.max_position_embeddings = fields.count("max_position_embeddings", kMaxPositions);
  shape.rms_norm_eps = fields.number("rms_norm_eps", 1e-6);
  shape.initializer_range = fields.number("initializer_range", 0.02);
  shape.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  shape.rope_scaling = read_rope(fields, shape.max_position_embeddings, shape.rope_theta);
  check_shared_fields(fields);
  if (head == Head::value) fields.harmless({"classifier_dropout", "summary_dropout_prob"});  // nothing drops
  if (family) {
    shape.qkv_bias = false;
    family->read(fields, shape);
    fields.refuse_the_rest();
    if (shape.num_attention_heads % shape.num_key_value_heads != 0)
      mistakes.add("num_key_value_heads", fmt::format("{} does not divide num_attention_heads {}",
                                                      shape.num_key_value_heads, shape.num_attention_heads));
    if (shape.head_dim % 2 != 0 || shape.head_dim > kMaxHeadDim)
      mistakes.add("head_dim", fmt::format("{} must be even and at most {}", shape.head_dim, kMaxHeadDim));
  }
  mistakes.throw_if_any(where + ": this model cannot be used");
  // YaRN is often switched on by hand, without a word of the new length.
  if (shape.rope_scaling.type == RopeScaling::Type::yarn)
    shape.max_position_embeddings =
        std::max(shape.max_position_embeddings,
                 static_cast<int64_t>(shape.rope_scaling.factor * shape.rope_scaling.original_max_positions));
  shape.config_text = config.dump();
  return shape;
}

namespace {

// The text and what it says.
std::pair<std::string, nlohmann::json> read_config(const std::string& folder) {
  const auto path = (std::filesystem::path(folder) / "config.json").string();
  std::string text = files::read(path);
  try {
    auto config = nlohmann::json::parse(text);
    return {std::move(text), std::move(config)};
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::corrupt_data, "{} is not valid JSON: {}", path, error.what());
  }
}

}  // namespace

Head head_of(const std::string& folder) {
  const auto config = read_config(folder).second;
  const std::string names = config.is_object() ? config.value("architectures", nlohmann::json()).dump() : "";
  return names.find(kOfTokens) != std::string::npos || names.find(kOfSequences) != std::string::npos
             ? Head::value
             : Head::language_model;
}

DecoderShape DecoderShape::from_folder(const std::string& folder, Head head) {
  const auto [text, config] = read_config(folder);
  DecoderShape shape = from_json(config, (std::filesystem::path(folder) / "config.json").string(), head);
  shape.config_text = text;  // with its fields in their order
  return shape;
}

namespace {

void set_value_head(const Family& family, nlohmann::ordered_json& config) {
  config["architectures"] = {architecture_for(family, kOfTokens)};
  config["id2label"] = {{"0", "LABEL_0"}};  // as many labels as numbers
  config["label2id"] = {{"LABEL_0", 0}};
  config["classifier_dropout"] = 0.0;
}

}  // namespace

nlohmann::ordered_json DecoderShape::to_json(const std::string& torch_dtype) const {
  const Family* family = find_family(model_type);
  TRIREME_CHECK(family, "no family is named {}", model_type);
  nlohmann::ordered_json config;
  if (!config_text.empty()) {
    config = nlohmann::ordered_json::parse(config_text);
    // Newer checkpoints call it "dtype".
    if (config.contains("dtype")) config["dtype"] = torch_dtype;
    if (config.contains("torch_dtype") || !config.contains("dtype")) config["torch_dtype"] = torch_dtype;
    if (head == Head::value) set_value_head(*family, config);
    return config;
  }
  config["architectures"] = {family->architecture};
  config["model_type"] = model_type;
  config["vocab_size"] = vocab_size;
  config["hidden_size"] = hidden_size;
  config["intermediate_size"] = intermediate_size;
  config["num_hidden_layers"] = num_hidden_layers;
  config["num_attention_heads"] = num_attention_heads;
  config["num_key_value_heads"] = num_key_value_heads;
  config["max_position_embeddings"] = max_position_embeddings;
  config["rms_norm_eps"] = rms_norm_eps;
  write_rope(rope_theta, rope_scaling, config);
  config["initializer_range"] = initializer_range > 0 ? initializer_range : 0.02;
  config["tie_word_embeddings"] = tie_word_embeddings;
  config["hidden_act"] = "silu";
  config["attention_dropout"] = 0.0;
  family->write(*this, config);
  config["use_cache"] = true;
  config["torch_dtype"] = torch_dtype;
  if (head == Head::value) set_value_head(*family, config);
  return config;
}

int64_t DecoderShape::num_parameters() const {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(*this)) count += spec.numel();
  return count;
}

}  // namespace trireme::models
