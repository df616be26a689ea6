// A small model in a Hugging Face folder, and the commands run on it.
#pragma once

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "tests/launcher/commands/launch.h"
#include "trainer/text/tokenizer.h"
#include "trainer/weights/hf_checkpoint.h"

namespace trireme::commands {

using Json = nlohmann::ordered_json;

class ModelFolderTest : public LaunchTest {
 protected:
  /// Two layers of random weights over the tokenizer of bytes, with a chat template.
  std::string make_model(const std::string& name, at::ScalarType dtype = at::kFloat) {
    shape_.vocab_size = 259;
    shape_.hidden_size = 24;
    shape_.intermediate_size = 40;
    shape_.num_hidden_layers = 2;
    shape_.num_attention_heads = 3;
    shape_.num_key_value_heads = 1;
    shape_.head_dim = 8;
    shape_.max_position_embeddings = 128;
    shape_.initializer_range = 0.3;
    shape_.tie_word_embeddings = true;
    const std::string folder = folder_ / name;
    weights::save(folder, shape_, parameters(), dtype, {.special = {.eos = {256}}});
    text::Tokenizer::bytes()->save(folder);
    std::ofstream(folder + "/chat_template.jinja")
        << "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
           "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    return folder;
  }
  models::ParameterSet parameters() const {
    models::ParameterSet parameters(models::parameter_specs(shape_), at::kCPU);
    parameters.initialize(11, shape_);
    return parameters;
  }

  Result command(std::vector<std::string> arguments) {
    start(std::move(arguments));
    return finish(std::chrono::seconds(100));
  }
  /// Runs a command on rows and reads what it writes; nothing if it fails.
  std::vector<Json> answer(const std::string& name, const std::string& model, const std::vector<Json>& rows,
                           std::vector<std::string> more = {}) {
    std::string text;
    for (const Json& row : rows) text += row.dump() + "\n";
    std::vector<std::string> arguments{
        name, "--model", model, "--input", file("in.jsonl", text), "--output", folder_ / "out.jsonl"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = command(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<Json> answers;
    std::ifstream lines(folder_ / "out.jsonl");
    for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
    return answers;
  }

  models::DecoderShape shape_;
};

}  // namespace trireme::commands
