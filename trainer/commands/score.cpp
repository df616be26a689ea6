// `trireme score`: the log-probability of every token of given texts.
#include <ATen/core/grad_mode.h>

#include "runtime/base/error.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/loaded_model.h"
#include "trainer/commands/row_job.h"
#include "trainer/commands/row_options.h"
#include "trainer/steps/packing.h"

namespace trireme::commands {
namespace {

constexpr size_t kRowsAtATime = 256;

constexpr const char* kSummary =
    "Computes the log-probability of every token of given texts, of one forward pass, in nats.\n"
    "Input, an object a line: {\"text\": ...}, {\"messages\": [...]} or {\"ids\": [...]}. Output: "
    "{\"text\",\n"
    "\"ids\", \"logprobs\"}, and whatever else the row holds; logprobs[i] is that of ids[i] given what "
    "precedes\n"
    "it, null for the first. A folder of weights alone will do where the input is ids.\n\n"
    "  trireme score --model models/Qwen2.5-0.5B --input texts.jsonl --output scores.jsonl\n";

struct Scored {
  TextCodec::Encoded encoded;
  std::vector<float> log_probs;  // of ids[1], ids[2], ...
};

void check_ids(const TextRow& row, const std::vector<int32_t>& ids, const models::DecoderShape& shape) {
  for (const int32_t id : ids)
    if (id >= shape.vocab_size)
      fail(ErrorCode::invalid_config, "{}: id {} is none of the model's, which are 0 to {}", row.where, id,
           shape.vocab_size - 1);
  if (static_cast<int64_t>(ids.size()) > shape.max_position_embeddings)
    fail(ErrorCode::invalid_config, "{}: {} tokens; the model takes at most {} (max_position_embeddings)",
         row.where, ids.size(), shape.max_position_embeddings);
}

// Packs what has more than one token into forwards; results stand in order of rows and tokens.
void score_rows(std::span<Scored> rows, const models::Decoder& decoder, int64_t max_tokens) {
  std::vector<steps::Example> examples;
  std::vector<Scored*> scored;
  for (Scored& row : rows) {
    const auto& ids = row.encoded.ids;
    if (ids.size() < 2) continue;
    examples.push_back({data::prompt_and_response({ids[0]}, {ids.begin() + 1, ids.end()})});
    scored.push_back(&row);
  }
  auto next = scored.begin();
  for (const steps::MicroBatch& micro : steps::pack_examples(examples, max_tokens)) {
    const at::Tensor log_probs =
        decoder.token_log_probs(decoder.forward_packed(micro.batch), micro.rows, micro.tokens, 1.0)
            .log_probs_N.cpu();
    const float* values = log_probs.const_data_ptr<float>();
    for (int64_t begin = 0; begin < micro.num_pairs(); ++next) {
      const auto count = static_cast<int64_t>((*next)->encoded.ids.size()) - 1;
      (*next)->log_probs.assign(values + begin, values + begin + count);
      begin += count;
    }
  }
}

std::string line_of(const TextRow& row, Scored scored, bool has_text) {
  Json result = row.rest;
  if (has_text) result["text"] = std::move(scored.encoded.text);
  Json log_probs = Json::array();
  if (!scored.encoded.ids.empty()) log_probs.push_back(nullptr);
  for (const float value : scored.log_probs) log_probs.push_back(value);
  result["ids"] = std::move(scored.encoded.ids);
  result["logprobs"] = std::move(log_probs);
  return json_line(result);
}

}  // namespace

int score(const Arguments& arguments) {
  auto options = row_options("score", kSummary);
  add_text_options(options);
  add_model_options(options);
  const auto parsed = command_line::parse(options, arguments);
  if (!parsed) return 0;
  const RowPaths paths = row_paths(*parsed, "score");
  const TextOptions text = text_options(*parsed);
  const int64_t max_tokens = positive(*parsed, "max-batched-tokens");

  pin_matrix_products();
  const at::NoGradGuard no_gradients;
  RowJob job(paths.input, paths.output, (*parsed)["device"].as<std::string>());
  std::unique_ptr<TextCodec> codec;
  LoadedModel model;
  job.prepare([&] {
    codec = std::make_unique<TextCodec>(paths.model, job.rows(), text);
    model = load_model(paths.model, (*parsed)["dtype"].as<std::string>(), job.device(), false);
  });
  job.say(model.summary());
  job.run(kRowsAtATime, [&](std::span<const size_t> rows) {
    std::vector<Scored> scored(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      scored[i].encoded = codec->encode(job.rows()[rows[i]]);
      check_ids(job.rows()[rows[i]], scored[i].encoded.ids, model.shape);
    }
    score_rows(scored, *model.decoder, max_tokens);
    std::vector<std::string> lines;
    for (size_t i = 0; i < rows.size(); ++i)
      lines.push_back(line_of(job.rows()[rows[i]], std::move(scored[i]), codec->tokenizer() != nullptr));
    return lines;
  });
  return 0;
}

}  // namespace trireme::commands
