#include "trainer/commands/run_inputs.h"

#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "trainer/chat/chat_template.h"
#include "trainer/data/problem_set.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/rewards/reward.h"

namespace trireme::commands {

std::shared_ptr<const text::Tokenizer> make_tokenizer(const models::ModelConfig& model) {
  if (!model.tokenizer_path.empty()) return text::Tokenizer::from_folder(model.tokenizer_path);
  return model.path.empty() ? text::Tokenizer::bytes() : text::Tokenizer::from_folder(model.path);
}

models::DecoderShape make_shape(const models::ModelConfig& model, const text::Tokenizer& tokenizer) {
  if (!model.path.empty()) {
    const auto shape = models::DecoderShape::from_folder(model.path);
    if (tokenizer.vocab_size() > shape.vocab_size)
      fail(ErrorCode::invalid_config,
           "the tokenizer has {} ids, the model in {} only {}: set model.tokenizer_path to the model's own",
           tokenizer.vocab_size(), model.path, shape.vocab_size);
    return shape;
  }
  const models::RandomModelConfig& init = model.init;
  models::DecoderShape shape;
  shape.vocab_size = tokenizer.vocab_size();
  shape.hidden_size = init.hidden_size;
  shape.intermediate_size = init.intermediate_size;
  shape.num_hidden_layers = init.num_hidden_layers;
  shape.num_attention_heads = init.num_attention_heads;
  shape.num_key_value_heads = init.num_key_value_heads;
  shape.head_dim = init.hidden_size / init.num_attention_heads;
  shape.max_position_embeddings = init.max_position_embeddings;
  shape.rope_theta = init.rope_theta;
  shape.initializer_range = init.initializer_range;
  shape.tie_word_embeddings = init.tie_word_embeddings;
  return shape;
}

std::string read_generation_config(const models::ModelConfig& model) {
  const auto path = std::filesystem::path(model.path) / "generation_config.json";
  return !model.path.empty() && std::filesystem::exists(path) ? files::read(path) : "";
}

// The one that comes with the tokenizer; null where there is none or the data never asks for one.
static std::shared_ptr<const chat::ChatTemplate> make_chat_template(const config::RunConfig& config) {
  const std::string& folder =
      config.model.tokenizer_path.empty() ? config.model.path : config.model.tokenizer_path;
  if (folder.empty() || config.data.task != "files" || config.data.apply_chat_template == "never")
    return nullptr;
  return chat::ChatTemplate::from_folder(folder);
}

data::ProblemSet read_problems(const config::RunConfig& config) {
  const bool learns_responses = config.algorithm.name == "sft" || config.sft.warm_start;
  const auto chat_template = make_chat_template(config);
  auto problems = data::load_problems(config.data, learns_responses ? config.sft.response_key : "",
                                      config.run.seed, chat_template.get());
  Mistakes mistakes;
  const auto reward = rewards::make_reward(config.reward);
  for (const auto* list : {&problems.train, &problems.val})
    for (const data::Problem& problem : *list)
      if (const auto mistake = reward->ground_truth_mistake(problem.answer);
          !mistake.empty() && mistakes.lines().size() < 20)
        mistakes.add(problem.where, mistake);
  mistakes.throw_if_any("these answers cannot be compared with a response:");
  return problems;
}

void encode_prompts(data::ProblemSet& problems, const config::RunConfig& config,
                    const text::Tokenizer& tokenizer) {
  for (auto* list : {&problems.train, &problems.val, &problems.bare})
    if (const int64_t overlong = data::encode_prompts(*list, tokenizer, config.data))
      log::info("{} prompts are longer than data.max_prompt_length = {} tokens and are {}", overlong,
                config.data.max_prompt_length, config.data.filter_overlong_prompts ? "left out" : "cut");
}

}  // namespace trireme::commands
