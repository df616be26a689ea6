#include "launcher/verl/import.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>

#include "launcher/commands/commands.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/shell_line.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::commands {

int import_verl(const Arguments& arguments) {
  auto options = options_of(
      "import-verl", "[FILE ...]",
      "Makes a configuration of a verl command (a shell script, or pasted as it is) or of verl's YAML, with "
      "an\n"
      "account of every key: what it became, why it is needless here, or what to do instead. Nothing of a\n"
      "script is run. Without FILE, and for -, standard input is read; of several files the last goes "
      "before.\n");
  options.add_options()("o,output",
                        "write the TOML there; else it is printed, and the account goes to standard error",
                        cxxopts::value<std::string>(), "FILE")("quiet", "no account");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  auto files = positional(*parsed);
  if (files.empty()) files.push_back("-");

  verl::Settings settings;
  const verl::Environment environment = verl::process_environment();
  for (const std::string& file : files) {
    const std::string text =
        file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : files::read(file);
    verl::read_settings(text, file == "-" ? "standard input" : file, environment, settings);
  }
  if (settings.program.find("sft") != std::string::npos)
    fail(ErrorCode::invalid_config,
         "{} is verl's supervised trainer: start from configs/gsm8k-sft-0.5b.toml; docs/coming-from-verl.md "
         "says what "
         "its keys are called here",
         settings.program);
  const verl::Import made = verl::import(std::move(settings), shell_line(files), environment);
  const bool to_file = parsed->count("output") != 0;
  if (to_file)
    files::write_atomically((*parsed)["output"].as<std::string>(), made.toml);
  else
    fmt::print("{}", made.toml);
  if (!parsed->count("quiet")) fmt::print(to_file ? stdout : stderr, "{}", verl::report(made));
  return 0;
}

}  // namespace trireme::commands
