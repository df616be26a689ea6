// The options that tokenize, score and generate share.
#pragma once

#include <string>

#include "trainer/commands/commands.h"
#include "trainer/commands/text_rows.h"

namespace trireme::commands {

/// --model, --input, --output and the number of ranks.
cxxopts::Options row_options(const std::string& command, const std::string& summary);

struct RowPaths {
  std::string model, input, output;  // input, output: "-" for the standard streams
};
/// Throws invalid_config if --model is not given or there are arguments without an option.
RowPaths row_paths(const cxxopts::ParseResult& parsed, const std::string& command);

/// How texts and conversations become ids.
void add_text_options(cxxopts::Options& options);
TextOptions text_options(const cxxopts::ParseResult& parsed);

/// --dtype, --device, --max-batched-tokens.
void add_model_options(cxxopts::Options& options);
/// Of --max-batched-tokens and their like. Throws invalid_config below 1.
int64_t positive(const cxxopts::ParseResult& parsed, const std::string& option);

/// One object as a line of the output.
std::string json_line(const Json& object);

}  // namespace trireme::commands
