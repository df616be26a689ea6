// `trireme tokenize`: texts and conversations to token ids, and ids to text.
#include <ATen/Parallel.h>

#include "runtime/base/error.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/row_job.h"
#include "trainer/commands/row_options.h"

namespace trireme::commands {
namespace {

constexpr size_t kRowsAtATime = 8192;

constexpr const char* kSummary =
    "Turns texts and conversations into token ids, and ids into text: exactly as Hugging Face's libraries "
    "do.\n"
    "Input, an object a line: {\"text\": ...}, {\"messages\": [...]} (with \"tools\" if you like) or\n"
    "{\"ids\": [...]}. Output: {\"text\", \"ids\"}, and whatever else the row holds. A conversation goes\n"
    "through the folder's chat template.\n\n"
    "  echo '{\"text\": \"Hello\"}' | trireme tokenize --model models/Qwen2.5-0.5B-Instruct\n";

}  // namespace

int tokenize(const Arguments& arguments) {
  auto options = row_options("tokenize", kSummary);
  add_text_options(options);
  options.add_options()("skip-special-tokens", "leave special tokens out of texts made from ids");
  const auto parsed = command_line::parse(options, arguments);
  if (!parsed) return 0;
  const RowPaths paths = row_paths(*parsed, "tokenize");
  TextOptions text = text_options(*parsed);
  text.skip_special_tokens = parsed->count("skip-special-tokens") > 0;

  RowJob job(paths.input, paths.output, "cpu");
  std::unique_ptr<TextCodec> codec;
  job.prepare([&] { codec = std::make_unique<TextCodec>(paths.model, job.rows(), text); });
  if (!codec->tokenizer()) fail(ErrorCode::invalid_config, "{} holds no tokenizer.json", paths.model);
  job.run(kRowsAtATime, [&](std::span<const size_t> rows) {
    std::vector<std::string> lines(rows.size());
    at::parallel_for(0, static_cast<int64_t>(rows.size()), 64, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        const TextRow& row = job.rows()[rows[i]];
        auto encoded = codec->encode(row);
        Json result = row.rest;
        result["text"] = std::move(encoded.text);
        result["ids"] = std::move(encoded.ids);
        lines[i] = json_line(result);
      }
    });
    return lines;
  });
  return 0;
}

}  // namespace trireme::commands
