#include <fmt/format.h>

#include "launcher/commands/commands.h"
#include "launcher/commands/make_plan.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/plan_table.h"
#include "trainer/config/load.h"

namespace trireme::commands {

int plan(const Arguments& arguments) {
  auto options =
      options_of("plan", "CONFIG [key=value ...]", "Shows which rank would run where; starts nothing.\n");
  options.add_options()("n,ranks", "number of ranks (default: run.ranks, else one per GPU, else 1)",
                        cxxopts::value<int>(), "RANKS");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto given = config_arguments(positional(*parsed), "plan");
  const auto config = config::load(given.path, given.overrides);
  const auto planned = make_plan(config, host_for(config), asked_ranks(*parsed));
  fmt::print("{}", plan_table(planned.plan, config));
  for (const auto& warning : planned.warnings) fmt::print("warning: {}\n", warning);
  return 0;
}

}  // namespace trireme::commands
