#include "trainer/commands/row_options.h"

#include "runtime/base/error.h"

namespace trireme::commands {

cxxopts::Options row_options(const std::string& command, const std::string& summary) {
  auto options = command_line::options_of(command, "", summary);
  const auto text = [](const char* otherwise) {
    return cxxopts::value<std::string>()->default_value(otherwise);
  };
  options.add_options()("m,model", "the Hugging Face folder", cxxopts::value<std::string>(), "DIR");
  options.add_options()("i,input", "rows to read, JSON lines; - is standard input", text("-"), "FILE");
  options.add_options()("o,output", "where to write; a file appears when it is whole", text("-"), "FILE");
  // `trireme` itself takes it off and starts them.
  options.add_options()("n,ranks", "number of ranks, which share the rows", cxxopts::value<int>(), "RANKS");
  return options;
}

RowPaths row_paths(const cxxopts::ParseResult& parsed, const std::string& command) {
  const auto surplus = command_line::positional(parsed);
  if (!surplus.empty())
    fail(ErrorCode::invalid_config, "'{}' belongs to no option; `trireme help {}` lists them", surplus[0],
         command);
  if (!parsed.count("model"))
    fail(ErrorCode::invalid_config, "no model is named: `trireme {} --model DIR ...`", command);
  return {parsed["model"].as<std::string>(), parsed["input"].as<std::string>(),
          parsed["output"].as<std::string>()};
}

void add_text_options(cxxopts::Options& options) {
  options.add_options()(
      "add-special-tokens",
      "add to texts what the tokenizer puts around them, such as a beginning-of-text token")(
      "no-parse-special", "text that reads like a special token, <|im_end|>, stays text")(
      "add-generation-prompt", "end conversations with what begins an answer")(
      "continue-final-message", "end conversations with the last message's content")(
      "chat-template-kwargs", "more variables for the template: '{\"enable_thinking\": false}'",
      cxxopts::value<std::string>()->default_value("{}"), "JSON");
}

TextOptions text_options(const cxxopts::ParseResult& parsed) {
  TextOptions text;
  text.add_special_tokens = parsed.count("add-special-tokens") > 0;
  text.parse_special_tokens = parsed.count("no-parse-special") == 0;
  text.add_generation_prompt = parsed.count("add-generation-prompt") > 0;
  text.continue_final_message = parsed.count("continue-final-message") > 0;
  if (text.add_generation_prompt && text.continue_final_message)
    fail(ErrorCode::invalid_config,
         "--add-generation-prompt and --continue-final-message exclude each other: an answer is begun, or "
         "one is continued");
  const auto& given = parsed["chat-template-kwargs"].as<std::string>();
  text.template_variables = Json::parse(given, nullptr, false);
  if (!text.template_variables.is_object())
    fail(ErrorCode::invalid_config, "--chat-template-kwargs '{}' is not a JSON object", given);
  return text;
}

void add_model_options(cxxopts::Options& options) {
  const auto text = [](const char* otherwise) {
    return cxxopts::value<std::string>()->default_value(otherwise);
  };
  options.add_options()("dtype", "float32, bfloat16, or auto: as the weights are", text("auto"), "TYPE")(
      "device", "cpu, cuda, or auto: a GPU where there is one", text("auto"), "DEVICE")(
      "max-batched-tokens", "tokens of one forward pass", cxxopts::value<int64_t>()->default_value("8192"),
      "TOKENS");
}

int64_t positive(const cxxopts::ParseResult& parsed, const std::string& option) {
  const auto value = parsed[option].as<int64_t>();
  if (value < 1) fail(ErrorCode::invalid_config, "--{} {}: it must be at least 1", option, value);
  return value;
}

std::string json_line(const Json& object) {
  // Texts are valid UTF-8 by now; what is not in `rest` came from a JSON parser.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trireme::commands
