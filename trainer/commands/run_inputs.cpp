#include "trainer/commands/run_inputs.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "trainer/chat/chat_template.h"
#include "trainer/data/learned_tokens.h"
#include "trainer/data/problem_set.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/rewards/reward.h"
#include "trainer/rewards/scorer.h"
#include "trainer/sandbox/sandbox.h"

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

models::DecoderShape make_critic_shape(const config::RunConfig& config, const models::DecoderShape& actor,
                                       const text::Tokenizer& tokenizer) {
  const std::string& path = config.critic.path;
  if (path.empty()) {
    models::DecoderShape shape = actor;
    shape.head = models::Head::value;
    return shape;
  }
  const auto shape = models::DecoderShape::from_folder(path, models::Head::value);
  if (tokenizer.vocab_size() > shape.vocab_size)
    fail(
        ErrorCode::invalid_config,
        "the tokenizer has {} ids, the critic in {} only {}: critic.model.path must be of the actor's family",
        tokenizer.vocab_size(), path, shape.vocab_size);
  if (config::max_model_len(config) > shape.max_position_embeddings)
    fail(ErrorCode::invalid_config,
         "a prompt with its response has up to {} tokens, the critic in {} takes {}: take another one, or "
         "lower data.max_response_length",
         config::max_model_len(config), path, shape.max_position_embeddings);
  return shape;
}

models::DecoderShape make_reward_model_shape(const config::RunConfig& config) {
  const std::string& path = config.reward_model.path;
  if (models::head_of(path) != models::Head::value)
    fail(ErrorCode::invalid_config,
         "reward_model.path: {} is no classifier (architectures in config.json): a reward model has one "
         "number for a sequence, as Qwen2ForSequenceClassification with one label",
         path);
  return models::DecoderShape::from_folder(path, models::Head::value);
}

// In the words of reward_model.input = "auto".
static std::string why_not_tokens(const std::string& folder, const text::Tokenizer& own,
                                  const text::Tokenizer& policy) {
  const std::string differs = data::difference(policy, own);
  return differs.empty() ? "" : fmt::format("{} has another tokenizer (the policy's {})", folder, differs);
}

steps::RewardModelInput make_reward_input(const config::RunConfig& config, const models::DecoderShape& shape,
                                          const text::Tokenizer& tokenizer, std::string& said) {
  const steps::RewardModelConfig& model = config.reward_model;
  steps::RewardModelInput input;
  const auto json = nlohmann::json::parse(shape.config_text);
  if (const auto pad = json.find("pad_token_id"); pad != json.end() && pad->is_number_integer())
    input.pad = pad->get<int32_t>();
  input.max_length = shape.max_position_embeddings;
  input.max_rows = model.max_token_len_per_rank;
  input.weight = model.weight;
  input.alone = config::judges_nothing(config);
  std::shared_ptr<const text::Tokenizer> own;
  std::string why = "reward_model.input = \"text\"";
  if (model.input != "tokens") own = text::Tokenizer::from_folder(model.path);
  if (model.input == "auto") why = why_not_tokens(model.path, *own, tokenizer);
  if (model.input == "tokens" || why.empty()) {
    said = "the reward model reads the policy's tokens as they are";
    if (tokenizer.vocab_size() > shape.vocab_size)
      fail(ErrorCode::invalid_config,
           "reward_model.path: the tokenizer has {} ids, the reward model in {} only {}: set "
           "reward_model.input = \"text\"",
           tokenizer.vocab_size(), model.path, shape.vocab_size);
    if (config::max_model_len(config) > shape.max_position_embeddings)
      fail(ErrorCode::invalid_config,
           "reward_model.path: a prompt with its response has up to {} tokens, the reward model in {} takes "
           "{}: lower data.max_response_length",
           config::max_model_len(config), model.path, shape.max_position_embeddings);
    return input;
  }
  if (own->vocab_size() > shape.vocab_size)
    fail(ErrorCode::invalid_config,
         "reward_model.path: the tokenizer in {} has {} ids, the model beside it only {}: they do not belong "
         "together",
         model.path, own->vocab_size(), shape.vocab_size);
  input.reader = {std::move(own), chat::ChatTemplate::from_folder(model.path)};
  said = fmt::format("the reward model reads texts, {}: {}",
                     input.reader->chat_template ? "written by its own chat template"
                                                 : "prompt and response as they stand (it has no chat template)",
                     why);
  return input;
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

// Supervised fine-tuning goes on without accuracy where answers are no ground truth for the reward.
static void check_answers(data::ProblemSet& problems, const config::RunConfig& config) {
  if (rewards::runs_user_code(config.reward)) return;  // it knows what it compares with
  const bool needs_answers = config.algorithm.name != "sft";
  const auto reward = rewards::make_reward(config.reward);
  Mistakes mistakes;
  int64_t unjudged = 0;
  bool judges_programs = false;
  for (auto* list : {&problems.train, &problems.val})
    for (data::Problem& problem : *list) {
      if (!problem.is_judged) continue;
      judges_programs = judges_programs || reward->judges_programs(problem.data_source);
      const auto mistake = reward->ground_truth_mistake(problem.data_source, problem.answer);
      if (mistake.empty()) continue;
      if (needs_answers && mistakes.lines().size() < 20) mistakes.add(problem.where, mistake);
      problem.is_judged = false;
      ++unjudged;
    }
  if (needs_answers) mistakes.throw_if_any("these answers cannot be compared with a response:");
  if (judges_programs) sandbox::Sandbox{config.reward.code.python};  // or it says what is missing
  if (unjudged > 0)
    log::info("{} answers are nothing that reward.name = \"{}\" compares with: they are learned, not judged",
              unjudged, config.reward.name);
}

data::ProblemSet read_problems(const config::RunConfig& config) {
  data::LearnedColumns learned;
  if (config.algorithm.name == "sft")
    learned = {config.sft.response_key, config.sft.messages_key, config.sft.tools_key};
  else if (config.sft.warm_start)
    learned = {config.sft.response_key, "", ""};
  learned.pairs = config::is_dpo(config);
  learned.keeps_messages = config::has_reward_model(config) && config.reward_model.input != "tokens";
  const auto chat_template = make_chat_template(config);
  data::DataConfig data = config.data;
  if (config::judges_nothing(config)) data.answer_key.clear();  // nobody asks for ground truths
  auto problems = data::load_problems(data, learned, config.run.seed, chat_template.get());
  if (learned.pairs) {
    const auto same = std::ranges::count_if(
        problems.train, [](const data::Problem& problem) { return problem.response == problem.rejected; });
    if (same > 0)
      log::warn("{} of {} pairs hold one answer twice, and teach nothing", same, problems.train.size());
  }
  if (!config::has_rollout(config)) return problems;
  check_answers(problems, config);
  std::stable_partition(problems.val.begin(), problems.val.end(),
                        [](const data::Problem& problem) { return problem.is_judged; });
  return problems;
}

void encode_prompts(data::ProblemSet& problems, const config::RunConfig& config,
                    const text::Tokenizer& tokenizer) {
  for (auto* list : {&problems.train, &problems.val, &problems.bare})
    if (const int64_t overlong = data::encode_prompts(*list, tokenizer, config.data))
      log::info("{} prompts are longer than data.max_prompt_length = {} tokens and are {}", overlong,
                config.data.max_prompt_length, config.data.filter_overlong_prompts ? "left out" : "cut");
}

void encode_learned(data::ProblemSet& problems, const config::RunConfig& config,
                    const text::Tokenizer& tokenizer) {
  if (config.algorithm.name != "sft" && !config.sft.warm_start) return;
  const auto chat_template = make_chat_template(config);
  const data::LengthLimit limit{config::max_example_length(config), config.sft.truncation};
  for (auto* list : {&problems.train, &problems.val, &problems.bare}) {
    const data::LearnedCount count = data::encode_learned(*list, tokenizer, chat_template.get(), limit);
    if (count.cut > 0)
      log::info(
          "{} examples are longer than sft.max_length = {} tokens and are cut; {} have nothing left to learn",
          count.cut, limit.max_length, count.dropped);
  }
}

}  // namespace trireme::commands
