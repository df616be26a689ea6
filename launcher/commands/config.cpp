#include <fmt/format.h>

#include "launcher/commands/commands.h"
#include "launcher/commands/parse.h"
#include "runtime/base/error.h"
#include "trainer/config/load.h"
#include "trainer/config/schema.h"
#include "trainer/config/show.h"

namespace trireme::commands {
namespace {

int check(const ConfigArguments& given) {
  config::load(given.path, given.overrides);
  fmt::print("{}: no mistakes found\n", given.path);
  return 0;
}

int show(const ConfigArguments& given) {
  fmt::print("{}",
             config::show(config::load_with_origins(given.path, given.overrides, config::Paths::ignore)));
  return 0;
}

int explain(const std::vector<std::string>& names) {
  for (const auto& name : names) fmt::print("{}", config::explain(name));
  if (!names.empty()) return 0;
  for (const auto& table : config::tables()) fmt::print("[{}]\n  {}\n", table.name, table.explanation);
  fmt::print("\n`trireme config explain TABLE` lists its keys, `trireme config explain KEY` explains one.\n");
  return 0;
}

}  // namespace

int config(const Arguments& arguments) {
  auto options =
      options_of("config", "check CONFIG [key=value ...] | show CONFIG [key=value ...] | explain KEY ...",
                 "check    lists every mistake of a configuration\n"
                 "show     prints every key with its value and where that comes from, as TOML\n"
                 "explain  tells what a key does, its default and range; a table's name lists its keys\n");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  auto words = positional(*parsed);
  if (words.empty()) fail(ErrorCode::invalid_config, "`trireme config` wants check, show or explain");
  const std::string verb = words.front();
  words.erase(words.begin());
  if (verb == "check") return check(config_arguments(words, "config check"));
  if (verb == "show") return show(config_arguments(words, "config show"));
  if (verb == "explain") return explain(words);
  const auto close = nearest(verb, {"check", "show", "explain"});
  fail(ErrorCode::invalid_config, "`trireme config {}` does not exist: check, show or explain{}", verb,
       close.empty() ? "" : fmt::format("; did you mean {}?", close));
}

}  // namespace trireme::commands
