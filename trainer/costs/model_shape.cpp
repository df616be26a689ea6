#include "trainer/costs/model_shape.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::costs {
namespace {

constexpr int64_t kByteTokens = 259;  // what model.init's tokenizer of bytes has: 256 and three of its own

// The fields of a config.json that are whole numbers from 1 on.
class Counts {
 public:
  explicit Counts(std::string path)
      : path_(std::move(path)), fields_(nlohmann::json::parse(files::read(path_), nullptr, false)) {
    if (!fields_.is_object()) fail(ErrorCode::invalid_config, "{} is not a JSON object", path_);
  }
  /// `otherwise` where there is none, if that is not 0.
  int64_t of(const char* name, int64_t otherwise = 0) {
    const auto found = fields_.find(name);
    const bool absent = found == fields_.end() || found->is_null();
    if (absent && otherwise > 0) return otherwise;
    if (!absent && found->is_number_integer() && found->get<int64_t>() > 0) return found->get<int64_t>();
    mistakes_.add(path_, fmt::format("{} must be a whole number from 1 on", name));
    return 1;
  }
  bool flag(const char* name, bool otherwise) const {
    const auto found = fields_.find(name);
    return found != fields_.end() && found->is_boolean() ? found->get<bool>() : otherwise;
  }
  std::string text(const char* name) const {
    const auto found = fields_.find(name);
    return found != fields_.end() && found->is_string() ? found->get<std::string>() : "";
  }
  void throw_if_any() const { mistakes_.throw_if_any("what this model takes cannot be worked out"); }

 private:
  const std::string path_;
  const nlohmann::json fields_;
  Mistakes mistakes_;
};

ModelShape read_shape(const std::string& path) {
  Counts counts(path);
  ModelShape shape;
  shape.name = std::filesystem::path(path).parent_path().filename().string();
  shape.vocab_size = counts.of("vocab_size");
  shape.hidden_size = counts.of("hidden_size");
  shape.intermediate_size = counts.of("intermediate_size");
  shape.num_hidden_layers = counts.of("num_hidden_layers");
  shape.num_attention_heads = counts.of("num_attention_heads");
  shape.num_key_value_heads = counts.of("num_key_value_heads", shape.num_attention_heads);
  const std::string family = counts.text("model_type");
  shape.head_dim = counts.of(
      "head_dim",
      family == "qwen3" ? 128 : std::max<int64_t>(1, shape.hidden_size / shape.num_attention_heads));
  shape.tie_word_embeddings = counts.flag("tie_word_embeddings", false);
  const bool bias = counts.flag("attention_bias", false);
  shape.qkv_bias = family == "qwen2" || bias;
  shape.attention_output_bias = family != "qwen2" && bias;
  shape.qk_norm = family == "qwen3";
  counts.throw_if_any();
  return shape;
}

struct Published {
  const char* name;
  int64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim;
  bool tied, qkv_bias, qk_norm;
};

// As their config.json on Hugging Face says.
constexpr std::array<Published, 17> kPublished{{
    {"qwen2.5-0.5b", 151936, 896, 4864, 24, 14, 2, 64, true, true, false},
    {"qwen2.5-1.5b", 151936, 1536, 8960, 28, 12, 2, 128, true, true, false},
    {"qwen2.5-3b", 151936, 2048, 11008, 36, 16, 2, 128, true, true, false},
    {"qwen2.5-7b", 152064, 3584, 18944, 28, 28, 4, 128, false, true, false},
    {"qwen2.5-14b", 152064, 5120, 13824, 48, 40, 8, 128, false, true, false},
    {"qwen2.5-32b", 152064, 5120, 27648, 64, 40, 8, 128, false, true, false},
    {"qwen2.5-72b", 152064, 8192, 29568, 80, 64, 8, 128, false, true, false},
    {"qwen3-0.6b", 151936, 1024, 3072, 28, 16, 8, 128, true, false, true},
    {"qwen3-1.7b", 151936, 2048, 6144, 28, 16, 8, 128, true, false, true},
    {"qwen3-4b", 151936, 2560, 9728, 36, 32, 8, 128, true, false, true},
    {"qwen3-8b", 151936, 4096, 12288, 36, 32, 8, 128, false, false, true},
    {"qwen3-14b", 151936, 5120, 17408, 40, 40, 8, 128, false, false, true},
    {"qwen3-32b", 151936, 5120, 25600, 64, 64, 8, 128, false, false, true},
    {"llama-3.2-1b", 128256, 2048, 8192, 16, 32, 8, 64, true, false, false},
    {"llama-3.2-3b", 128256, 3072, 8192, 28, 24, 8, 128, true, false, false},
    {"llama-3.1-8b", 128256, 4096, 14336, 32, 32, 8, 128, false, false, false},
    {"llama-3.1-70b", 128256, 8192, 28672, 80, 64, 8, 128, false, false, false},
}};

// Letters that must change to make one word of the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

int64_t ModelShape::num_parameters() const {
  const SliceSizes sizes = slice_sizes(*this, 1);
  return sizes.embedding + num_hidden_layers * sizes.layer + sizes.last;
}

double ModelShape::flops_of_layer() const {
  return 2.0 * static_cast<double>(slice_sizes(*this, 1).layer_matrices);
}

double ModelShape::flops_of_head() const {
  return 2.0 * static_cast<double>(slice_sizes(*this, 1).head);
}

int64_t ModelShape::kv_bytes_per_token(int64_t element, int64_t tp) const {
  return 2 * num_hidden_layers * std::max<int64_t>(1, num_key_value_heads / tp) * head_dim * element;
}

SliceSizes slice_sizes(const ModelShape& shape, int64_t tp) {
  const int64_t hidden = shape.hidden_size, mlp = shape.intermediate_size / tp;
  const int64_t q = shape.q_width() / tp,
                kv = std::max<int64_t>(1, shape.num_key_value_heads / tp) * shape.head_dim;
  // The vocabulary goes in pieces of up to 64 tokens, the first ranks have one more.
  int64_t piece = 64;
  while (piece > 1 && shape.vocab_size / piece < 64) piece /= 2;
  const int64_t pieces = (shape.vocab_size + piece - 1) / piece,
                tokens = std::min(shape.vocab_size, (pieces + tp - 1) / tp * piece);
  SliceSizes sizes;
  sizes.embedding = tokens * hidden;
  sizes.layer_matrices = (q + 2 * kv) * hidden + q * hidden + 3 * mlp * hidden;
  sizes.largest_matrix = std::max(2 * mlp, q + 2 * kv) * hidden;
  sizes.layer = sizes.layer_matrices + 2 * hidden + (shape.qkv_bias ? q + 2 * kv : 0) +
                (shape.attention_output_bias ? hidden : 0) + (shape.qk_norm ? 2 * shape.head_dim : 0);
  const bool own_head = !shape.value_head && !shape.tie_word_embeddings;
  sizes.head = shape.value_head ? hidden : sizes.embedding;
  sizes.last = hidden + (shape.value_head ? hidden + 1 : own_head ? sizes.head : 0);
  return sizes;
}

std::vector<int64_t> possible_tp(const ModelShape& shape, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t tp = 1; tp <= std::min(most, shape.num_attention_heads); ++tp) {
    const bool kv_fits = shape.num_key_value_heads % tp == 0 || tp % shape.num_key_value_heads == 0;
    if (shape.num_attention_heads % tp == 0 && shape.intermediate_size % tp == 0 && kv_fits)
      sizes.push_back(tp);
  }
  return sizes;
}

ModelShape model_shape(const models::ModelConfig& model) {
  if (!model.path.empty()) return read_shape((std::filesystem::path(model.path) / "config.json").string());
  const auto& init = model.init;
  ModelShape shape{"model.init",
                   kByteTokens,
                   init.hidden_size,
                   init.intermediate_size,
                   init.num_hidden_layers,
                   init.num_attention_heads,
                   init.num_key_value_heads,
                   init.hidden_size / init.num_attention_heads};
  shape.tie_word_embeddings = init.tie_word_embeddings;
  shape.qkv_bias = true;
  return shape;
}

std::vector<std::string> published_shapes() {
  std::vector<std::string> names;
  for (const Published& known : kPublished) names.emplace_back(known.name);
  return names;
}

ModelShape find_shape(const std::string& text) {
  for (const Published& known : kPublished) {
    if (text != known.name) continue;
    ModelShape shape{known.name,   known.vocab, known.hidden,   known.intermediate,
                     known.layers, known.heads, known.kv_heads, known.head_dim};
    shape.tie_word_embeddings = known.tied;
    shape.qkv_bias = known.qkv_bias;
    shape.qk_norm = known.qk_norm;
    return shape;
  }
  if (std::filesystem::is_directory(text))
    return read_shape((std::filesystem::path(text) / "config.json").string());
  if (std::filesystem::is_regular_file(text)) return read_shape(text);
  const auto names = published_shapes();
  const auto nearest =
      *std::ranges::min_element(names, {}, [&](const std::string& name) { return distance(text, name); });
  fail(ErrorCode::invalid_config,
       "--model {}: no folder, no config.json, and no published shape of that name; did you mean {}? Known: "
       "{}",
       text, nearest, fmt::join(names, ", "));
}

}  // namespace trireme::costs
