// `trireme generate`: completions of given prompts, with their ids and log-probabilities.
#include <algorithm>

#include "runtime/base/error.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/loaded_model.h"
#include "trainer/commands/row_job.h"
#include "trainer/commands/row_options.h"
#include "trainer/rollout/engine.h"
#include "trainer/text/utf8.h"

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
    "An answer that a stop string ended has it as \"stop_reason\"; its ids hold it, its text ends before "
    "it.\n"
    "Samples depend on the seed and the row alone, not on the number of ranks.\n\n"
    "  trireme generate --model models/Qwen2.5-0.5B-Instruct --input prompts.jsonl --max-new-tokens 256\n";

struct GenerateOptions {
  rollout::SamplingConfig sampling;
  bool greedy = true;
  std::vector<int32_t> stop_ids;
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
                "P")("min-p", "sample among tokens of at least P times the likeliest one's probability",
                     cxxopts::value<double>()->default_value("0"),
                     "P")("stop", "end an answer where this text appears; may be given several times",
                          cxxopts::value<std::string>(), "TEXT")(
      "stop-token-ids", "end an answer with one of these tokens, too", cxxopts::value<std::vector<int32_t>>(),
      "ID,ID")("samples", "answers to each prompt", cxxopts::value<int64_t>()->default_value("1"), "N")(
      "seed", "of the samples", cxxopts::value<uint64_t>()->default_value("0"), "SEED")(
      "max-num-seqs", "answers that a rank makes at the same time",
      cxxopts::value<int64_t>()->default_value("64"), "N")("ignore-eos", "do not end at a stop token")(
      "keep-special-tokens", "show special tokens in the texts");
}

GenerateOptions options_of(const cxxopts::ParseResult& parsed) {
  GenerateOptions options;
  options.sampling = {parsed["temperature"].as<double>(),
                      parsed["top-k"].as<int64_t>(),
                      parsed["top-p"].as<double>(),
                      parsed["min-p"].as<double>(),
                      {}};
  if (!(options.sampling.temperature >= 0))
    fail(ErrorCode::invalid_config, "--temperature {}: it must be 0 (greedy) or more",
         options.sampling.temperature);
  if (!(options.sampling.min_p >= 0 && options.sampling.min_p <= 1))
    fail(ErrorCode::invalid_config, "--min-p {}: it must be between 0 and 1", options.sampling.min_p);
  options.greedy = options.sampling.temperature == 0;
  if (options.greedy) options.sampling = {};
  for (const auto& argument : parsed.arguments())  // a list of cxxopts' own would be cut at commas
    if (argument.key() == "stop") options.sampling.stop.push_back(argument.value());
  for (const std::string& text : options.sampling.stop)
    if (text.empty()) fail(ErrorCode::invalid_config, "--stop: an empty text would end every answer at once");
  if (parsed.count("stop-token-ids")) options.stop_ids = parsed["stop-token-ids"].as<std::vector<int32_t>>();
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

std::string text_of(const rollout::Response& response, const text::Tokenizer& tokenizer, bool skip_special) {
  if (response.stop_string < 0) return tokenizer.decode(response.tokens, skip_special);
  std::string text;
  auto left = static_cast<size_t>(response.text_length);
  for (const int32_t id : response.tokens) {
    const std::string_view whole = tokenizer.bytes_of_token(id, false).substr(0, left);
    if (!tokenizer.bytes_of_token(id, skip_special).empty()) text += whole;
    left -= whole.size();
  }
  return text::replace_not_utf8(std::move(text));
}

std::string lines_of(const TextRow& row, size_t index, const rollout::Completion& completion,
                     const std::vector<std::string>& stop, const text::Tokenizer* tokenizer,
                     bool skip_special) {
  std::string lines;
  for (size_t sample = 0; sample < completion.responses.size(); ++sample) {
    const rollout::Response& response = completion.responses[sample];
    Json result = row.rest;
    result["index"] = index;
    result["sample"] = sample;
    result["ids"] = response.tokens;
    if (tokenizer) result["text"] = text_of(response, *tokenizer, skip_special);
    result["logprobs"] = response.log_probs;
    result["finish_reason"] = response.stopped ? "stop" : "length";
    if (response.stop_string >= 0) result["stop_reason"] = stop[static_cast<size_t>(response.stop_string)];
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
    const text::Tokenizer* tokenizer = codec->tokenizer();
    std::vector<int32_t> stop_ids = options.stop_ids;
    if (tokenizer && parsed->count("ignore-eos") == 0)
      stop_ids.insert(stop_ids.end(), tokenizer->stop_ids().begin(), tokenizer->stop_ids().end());
    engine = std::make_unique<rollout::Engine>(*model.decoder, config, stop_ids, prompts.longest,
                                               job.ranks_on_host());
    if (tokenizer)
      engine->set_token_text([=](int32_t id) { return tokenizer->bytes_of_token(id, false); });
    else if (!options.sampling.stop.empty())
      fail(ErrorCode::invalid_config,
           "--stop needs the text of tokens, but {} has no tokenizer: use --stop-token-ids", paths.model);
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
      lines.push_back(lines_of(job.rows()[rows[i]], rows[i], completions[i], options.sampling.stop,
                               codec->tokenizer(), skip_special));
    return lines;
  });
  return 0;
}

}  // namespace trireme::commands
