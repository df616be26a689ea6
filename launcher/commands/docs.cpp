#include <fmt/format.h>

#include "launcher/commands/commands.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/trainer_program.h"
#include "runtime/base/error.h"
#include "trainer/config/show.h"

namespace trireme::commands {

int docs(const Arguments& arguments) {
  auto options =
      options_of("docs", "configuration|metrics", "Prints a reference, made from the code, as Markdown.\n");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto words = positional(*parsed);
  if (words.size() == 1 && words[0] == "configuration") {
    fmt::print("{}", config::configuration_markdown());
    return 0;
  }
  if (words.size() == 1 && words[0] == "metrics") return run_and_wait({trainer_program(), "docs", "metrics"});
  fail(ErrorCode::invalid_config, "`trireme docs` prints one of: configuration, metrics");
}

}  // namespace trireme::commands
