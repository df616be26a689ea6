#include <fmt/format.h>

#include "launcher/commands/commands.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/plan_table.h"
#include "launcher/commands/where.h"
#include "trainer/config/load.h"

namespace trireme::commands {

int plan(const Arguments& arguments) {
  auto options =
      options_of("plan", "CONFIG [key=value ...]", "Shows which rank would run where; starts no rank.\n");
  add_where_options(options);
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto given = config_arguments(positional(*parsed), "plan");
  const auto config = config::load(given.path, given.overrides);
  const auto planned = plan_for(config, gather(where_to_run(*parsed), config));
  fmt::print("{}", plan_table(planned.plan, config));
  for (const auto& warning : planned.warnings) fmt::print("warning: {}\n", warning);
  return 0;
}

}  // namespace trireme::commands
