// `trireme generate`: completions of given prompts, with their ids and log-probabilities.
#include <algorithm>

#include "runtime/base/error.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/loaded_model.h"
#include "trainer/commands/row_job.h"
#include "trainer/commands/row_options.h"
#include "trainer/rollout/engine.h"

namespace trireme::commands {
namespace {

constexpr size_t kRowsAtATime = 1024;

constexpr const char* kSummary =
    "Continues prompts with the engine that training rolls out with. Greedy, unless --temperature is given.\n"
    "Input, an object a line: {\"text\": ...}, {\"messages\": [...]} (the chat template begins the answer, "
    "or\n"
    "goes on with the assistant's last message) or {\"ids\": [...]}. Output, a line for each sample, in the "
    "order of\n"
    "the input: {\"index\", \"sample\", \"ids\", \"text\", \"logprobs\", \"finish_reason\"}, and whatever "
    "else the row\n"
    "holds; logprobs[i] is that of ids[i] given what precedes it, of softmax(logits / temperature).\n"
    "Samples depend on the seed and the row alone, not on the number of ranks.\n\n"
    "  trireme generate --model models/Qwen2.5-0.5B-Instruct --input prompts.jsonl --max-new-tokens 256\n";

struct GenerateOptions {
  rollout::SamplingConfig sampling;
  bool greedy = true;
  int64_t samples = 1, max_new_tokens = 0, max_num_seqs = 0, max_batched_tokens = 0;
  uint64_t seed = 0;
};

void add_options(cxxopts::Options& options) {
  options.add_options()("max-new-tokens", "tokens of an answer at most",
                        cxxopts::value<int64_t>()->default_value("256"), "TOKENS")(
      "temperature", "sample from softmax(logits / T); without it, or with 0, greedy",
      cxxopts::value<double>()->default_value("0"),
      "T")("top-k", "sample among the K most likely tokens; -1: all",
           cxxopts::value<int64_t>()->default_value("-1"),
           "K")("top-p", "sample among the most likely tokens that hold P of the probability",
                cxxopts::value<double>()->default_value("1"),
                "P")("samples", "answers to each prompt", cxxopts::value<int64_t>()->default_value("1"), "N")(
      "seed", "of the samples", cxxopts::value<uint64_t>()->default_value("0"), "SEED")(
      "max-num-seqs", "answers that a rank makes at the same time",
      cxxopts::value<int64_t>()->default_value("64"), "N")("ignore-eos", "do not end at a stop token")(
      "keep-special-tokens", "show special tokens in the texts");
}

GenerateOptions options_of(const cxxopts::ParseResult& parsed) {
  GenerateOptions options;
  options.sampling = {parsed["temperature"].as<double>(), parsed["top-k"].as<int64_t>(),
                      parsed["top-p"].as<double>()};
  if (!(options.sampling.temperature >= 0))
    fail(ErrorCode::invalid_config, "--temperature {}: it must be 0 (greedy) or more",
         options.sampling.temperature);
  options.greedy = options.sampling.temperature == 0;
  if (options.greedy) options.sampling = {};
  options.samples = positive(parsed, "samples");
  options.max_new_tokens = positive(parsed, "max-new-tokens");
  options.max_num_seqs = positive(parsed, "max-num-seqs");
  options.max_batched_tokens = positive(parsed, "max-batched-tokens");
  options.seed = parsed["seed"].as<uint64_t>();
  return options;
}

/// Every row's prompt, checked; and the tokens that the longest needs with its answer.
struct Prompts {
  std::vector<std::vector<int32_t>> ids;
  int64_t longest = 0;
};

Prompts make_prompts(const std::vector<TextRow>& rows, const TextCodec& codec,
                     const models::DecoderShape& shape, int64_t max_new_tokens) {
  Prompts prompts;
  for (const TextRow& row : rows) {
    prompts.ids.push_back(codec.encode(row).ids);
    const auto& ids = prompts.ids.back();
    const int64_t length = static_cast<int64_t>(ids.size()) + max_new_tokens;
    if (ids.empty()) fail(ErrorCode::invalid_config, "{}: the prompt has no tokens", row.where);
    for (const int32_t id : ids)
      if (id >= shape.vocab_size)
        fail(ErrorCode::invalid_config, "{}: id {} is none of the model's, which are 0 to {}", row.where, id,
             shape.vocab_size - 1);
    if (length > shape.max_position_embeddings)
      fail(ErrorCode::invalid_config,
           "{}: {} tokens and {} new ones are more than the model takes, {} (max_position_embeddings); lower "
           "--max-new-tokens or shorten the prompt",
           row.where, ids.size(), max_new_tokens, shape.max_position_embeddings);
    prompts.longest = std::max(prompts.longest, length);
  }
  return prompts;
}

std::string lines_of(const TextRow& row, size_t index, const rollout::Completion& completion,
                     const text::Tokenizer* tokenizer, bool skip_special) {
  std::string lines;
  for (size_t sample = 0; sample < completion.responses.size(); ++sample) {
    const rollout::Response& response = completion.responses[sample];
    Json result = row.rest;
    result["index"] = index;
    result["sample"] = sample;
    result["ids"] = response.tokens;
    if (tokenizer) result["text"] = tokenizer->decode(response.tokens, skip_special);
    result["logprobs"] = response.log_probs;
    result["finish_reason"] = response.stopped ? "stop" : "length";
    lines += json_line(result);
  }
  return lines;
}

}  // namespace

int generate(const Arguments& arguments) {
  auto command = row_options("generate", kSummary);
  add_options(command);
  add_text_options(command);
  add_model_options(command);
  const auto parsed = command_line::parse(command, arguments);
  if (!parsed) return 0;
  const RowPaths paths = row_paths(*parsed, "generate");
  const GenerateOptions options = options_of(*parsed);
  TextOptions text = text_options(*parsed);
  text.add_generation_prompt = text.continue_final_message = true;

  pin_matrix_products();
  RowJob job(paths.input, paths.output, (*parsed)["device"].as<std::string>());
  std::unique_ptr<TextCodec> codec;
  LoadedModel model;
  Prompts prompts;
  std::unique_ptr<rollout::Engine> engine;
  job.prepare([&] {
    codec = std::make_unique<TextCodec>(paths.model, job.rows(), text);
    model = load_model(paths.model, (*parsed)["dtype"].as<std::string>(), job.device(), true);
    prompts = make_prompts(job.rows(), *codec, model.shape, options.max_new_tokens);
    if (prompts.ids.empty()) return;
    rollout::RolloutConfig config;
    config.max_num_seqs =
        std::min(options.max_num_seqs, static_cast<int64_t>(prompts.ids.size()) * options.samples);
    config.max_num_batched_tokens = options.max_batched_tokens;
    const bool stops = codec->tokenizer() && parsed->count("ignore-eos") == 0;
    engine = std::make_unique<rollout::Engine>(
        *model.decoder, config, stops ? codec->tokenizer()->stop_ids() : std::vector<int32_t>{},
        prompts.longest);
  });
  job.say(model.summary());
  const bool skip_special = parsed->count("keep-special-tokens") == 0;
  job.run(kRowsAtATime, [&](std::span<const size_t> rows) {
    std::vector<rollout::Request> requests;
    for (const size_t row : rows) {
      rollout::Request& request = requests.emplace_back();
      request.id = static_cast<int64_t>(row);
      request.prompt = prompts.ids[row];
      request.n = options.samples;
      request.sampling = options.sampling;
      request.greedy = options.greedy;
      request.max_new_tokens = options.max_new_tokens;
      request.seed = options.seed;
    }
    std::vector<std::string> lines;
    const auto completions = engine->generate(std::move(requests));
    for (size_t i = 0; i < rows.size(); ++i)
      lines.push_back(
          lines_of(job.rows()[rows[i]], rows[i], completions[i], codec->tokenizer(), skip_special));
    return lines;
  });
  return 0;
}

}  // namespace trireme::commands
