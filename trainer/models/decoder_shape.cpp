#include "trainer/models/decoder_shape.h"

#include <filesystem>
#include <initializer_list>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::models {
namespace {

class Fields {
 public:
  Fields(const nlohmann::json& config, Mistakes& mistakes) : config_(config), mistakes_(mistakes) {}

  int64_t positive(const char* name, int64_t fallback = 0) {
    if (!present(name)) {
      if (fallback == 0) mistakes_.add(name, "is missing");
      return fallback;
    }
    const auto& value = config_[name];
    if (!value.is_number_integer() || value.get<int64_t>() <= 0) {
      mistakes_.add(name, fmt::format("must be a positive integer, is {}", value.dump()));
      return 1;
    }
    return value.get<int64_t>();
  }
  double number(const char* name, double fallback) {
    if (!present(name)) return fallback;
    if (!config_[name].is_number() || config_[name].get<double>() <= 0) {
      mistakes_.add(name, fmt::format("must be a positive number, is {}", config_[name].dump()));
      return fallback;
    }
    return config_[name].get<double>();
  }
  bool flag(const char* name, bool fallback) {
    if (!present(name)) return fallback;
    if (!config_[name].is_boolean()) {
      mistakes_.add(name, fmt::format("must be true or false, is {}", config_[name].dump()));
      return fallback;
    }
    return config_[name].get<bool>();
  }
  /// Refuses a field whose value asks for what this decoder does not do.
  void must_be(const char* name, std::initializer_list<nlohmann::json> allowed) {
    if (!present(name)) return;
    for (const auto& value : allowed)
      if (config_[name] == value) return;
    mistakes_.add(name, fmt::format("{} is not supported", config_[name].dump()));
  }

 private:
  bool present(const char* name) const { return config_.contains(name) && !config_[name].is_null(); }
  const nlohmann::json& config_;
  Mistakes& mistakes_;
};

}  // namespace

DecoderShape DecoderShape::from_json(const nlohmann::json& config, const std::string& where) {
  Mistakes mistakes;
  if (!config.is_object()) fail(ErrorCode::invalid_config, "{}: must hold a JSON object", where);
  DecoderShape shape;
  Fields fields(config, mistakes);
  shape.model_type = config.value("model_type", std::string());
  if (shape.model_type != "qwen2")
    mistakes.add("model_type", fmt::format("'{}' is not supported; supported: qwen2", shape.model_type));
  shape.vocab_size = fields.positive("vocab_size");
  shape.hidden_size = fields.positive("hidden_size");
  shape.intermediate_size = fields.positive("intermediate_size");
  shape.num_hidden_layers = fields.positive("num_hidden_layers");
  shape.num_attention_heads = fields.positive("num_attention_heads");
  shape.num_key_value_heads =
      fields.positive("num_key_value_heads", std::max<int64_t>(shape.num_attention_heads, 1));
  shape.head_dim = fields.positive(
      "head_dim", std::max<int64_t>(shape.hidden_size / std::max<int64_t>(shape.num_attention_heads, 1), 1));
  shape.max_position_embeddings = fields.positive("max_position_embeddings", 32768);
  shape.rms_norm_eps = fields.number("rms_norm_eps", 1e-6);
  shape.rope_theta = fields.number("rope_theta", 10000.0);
  shape.initializer_range = fields.number("initializer_range", 0.02);
  shape.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  // Newer checkpoints keep theta in rope_parameters.
  if (config.contains("rope_parameters") && config["rope_parameters"].is_object()) {
    const auto& rope = config["rope_parameters"];
    if (rope.contains("rope_theta") && rope["rope_theta"].is_number())
      shape.rope_theta = rope["rope_theta"].get<double>();
    if (rope.value("rope_type", "default") != "default")
      mistakes.add("rope_parameters.rope_type", fmt::format("{} is not supported", rope["rope_type"].dump()));
  }
  fields.must_be("rope_scaling", {});
  fields.must_be("hidden_act", {"silu"});
  fields.must_be("use_sliding_window", {false});
  fields.must_be("attention_dropout", {0, 0.0});
  if (config.contains("layer_types") && config["layer_types"].is_array())
    for (const auto& type : config["layer_types"])
      if (type != "full_attention") {
        mistakes.add("layer_types", fmt::format("{} is not supported", type.dump()));
        break;
      }
  if (mistakes.empty()) {
    if (shape.num_attention_heads % shape.num_key_value_heads != 0)
      mistakes.add("num_key_value_heads", fmt::format("{} does not divide num_attention_heads {}",
                                                      shape.num_key_value_heads, shape.num_attention_heads));
    if (shape.head_dim % 2 != 0 || shape.head_dim > 256)
      mistakes.add("head_dim", fmt::format("{} must be even and at most 256", shape.head_dim));
  }
  mistakes.throw_if_any(where + ": this model cannot be used");
  shape.config_text = config.dump();
  return shape;
}

DecoderShape DecoderShape::from_folder(const std::string& folder) {
  const auto path = (std::filesystem::path(folder) / "config.json").string();
  const std::string text = files::read(path);
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::corrupt_data, "{} is not valid JSON: {}", path, error.what());
  }
  DecoderShape shape = from_json(config, path);
  shape.config_text = text;  // with its fields in their order
  return shape;
}

nlohmann::ordered_json DecoderShape::to_json(const std::string& torch_dtype) const {
  nlohmann::ordered_json config;
  if (!config_text.empty()) {
    config = nlohmann::ordered_json::parse(config_text);
    // Newer checkpoints call it "dtype".
    if (config.contains("dtype")) config["dtype"] = torch_dtype;
    if (config.contains("torch_dtype") || !config.contains("dtype")) config["torch_dtype"] = torch_dtype;
    return config;
  }
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["model_type"] = model_type;
  config["vocab_size"] = vocab_size;
  config["hidden_size"] = hidden_size;
  config["intermediate_size"] = intermediate_size;
  config["num_hidden_layers"] = num_hidden_layers;
  config["num_attention_heads"] = num_attention_heads;
  config["num_key_value_heads"] = num_key_value_heads;
  if (head_dim * num_attention_heads != hidden_size) config["head_dim"] = head_dim;
  config["max_position_embeddings"] = max_position_embeddings;
  config["rms_norm_eps"] = rms_norm_eps;
  config["rope_theta"] = rope_theta;
  config["initializer_range"] = initializer_range > 0 ? initializer_range : 0.02;
  config["tie_word_embeddings"] = tie_word_embeddings;
  config["hidden_act"] = "silu";
  config["attention_dropout"] = 0.0;
  config["use_sliding_window"] = false;
  config["use_cache"] = true;
  config["torch_dtype"] = torch_dtype;
  return config;
}

int64_t DecoderShape::num_parameters() const {
  const int64_t q = num_attention_heads * head_dim, kv = num_key_value_heads * head_dim;
  const int64_t layer = hidden_size * (q + 2 * kv) + q + 2 * kv + q * hidden_size +
                        3 * hidden_size * intermediate_size + 2 * hidden_size;
  return vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2) + num_hidden_layers * layer + hidden_size;
}

}  // namespace trireme::models
