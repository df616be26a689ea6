#include <fmt/format.h>

#include "launcher/commands/commands.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/plan_report.h"
#include "launcher/commands/plan_table.h"
#include "launcher/commands/where.h"
#include "runtime/base/error.h"
#include "trainer/config/load.h"

namespace trireme::commands {
namespace {

constexpr const char* kSummary =
    "Without --machine and its like: which rank would run where, on the hosts that the options name.\n"
    "With it: what the run would take on a machine that need not be here: memory of every role and phase, "
    "time of\n"
    "every stage, traffic, idle ranks, cost, and the changes that would help most. Starts nothing.\n\n"
    "  trireme plan run.toml --machine 8xH100 --nodes 2\n"
    "  trireme plan --explore --model llama-3.1-70b --machine 64x8xH100\n"
    "  trireme plan --against published-runs.json --fit        (stated times beside predicted ones)\n";

void print(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int against(const cxxopts::ParseResult& parsed) {
  const auto seen = costs::read_observations(parsed["against"].as<std::string>());
  const bool on_cpu = seen.front().job.machine.device.is_cpu;
  auto constants = on_cpu ? costs::cpu_constants() : costs::gpu_constants();
  if (parsed.count("fit")) constants = costs::fit(seen, constants);
  const auto comparisons = costs::compare(seen, constants);
  if (parsed.count("json"))
    print(comparison_json(comparisons, constants));
  else
    fmt::print("{}", comparison_text(comparisons, constants));
  return 0;
}

// Another machine than this one.
int forecast(const cxxopts::ParseResult& parsed, const config::RunConfig* config) {
  const auto machine = planned_machine(parsed, config && config->model.dtype == "fp32");
  if (!machine)
    fail(ErrorCode::invalid_config,
         "--explore, and a plan without a CONFIG, need a machine: --machine 8xH100, --topo FILE or "
         "--calibration "
         "FILE");
  const int asked = asked_ranks(parsed);
  const int64_t ranks = asked > 0 ? asked
                        : config && config->run.ranks > 0 && !parsed.count("explore")
                            ? config->run.ranks
                            : machine->machine.devices();
  if (ranks > machine->machine.devices())
    fail(ErrorCode::invalid_config, "{} ranks, but {} has {} devices: raise --nodes", ranks,
         machine->machine.text(), machine->machine.devices());
  if (ranks > 10000) fail(ErrorCode::invalid_config, "{} ranks: at most 10,000", ranks);
  const auto job = planned_job(config, parsed, *machine, ranks);
  if (parsed.count("explore")) {
    const auto search = costs::explore(job, ranks, search_space());
    if (parsed.count("json"))
      print(search_json(search));
    else
      fmt::print("{}", search_text(search, job));
    return search.best.empty() ? 1 : 0;
  }
  const auto outcome = costs::outcome_of(job);
  const Report report{job, outcome, machine->source,
                      parsed.count("price") ? parsed["price"].as<double>() : 0};
  if (parsed.count("json"))
    print(report_json(report));
  else
    fmt::print("{}", report_text(report));
  return 0;
}

}  // namespace

int plan(const Arguments& arguments) {
  auto options = options_of("plan", "[CONFIG [key=value ...]]", kSummary);
  add_where_options(options);
  add_plan_options(options);
  options.add_options()("explore", "search placements and layouts for the shortest step")(
      "price", "of a device and hour", cxxopts::value<double>(), "MONEY")(
      "against", "runs whose times were stated or measured, beside what this predicts",
      cxxopts::value<std::string>(), "FILE")(
      "fit", "with --against: fit the constants to those marked for it")("json", "the same for programs");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  if (parsed->count("against")) return against(*parsed);
  const auto given = positional(*parsed);
  const bool elsewhere = parsed->count("machine") || parsed->count("topo") || parsed->count("calibration") ||
                         parsed->count("explore");
  if (given.empty() && elsewhere) return forecast(*parsed, nullptr);
  const auto file = config_arguments(given, "plan");
  const auto config =
      config::load(file.path, file.overrides, elsewhere ? config::Paths::ignore : config::Paths::check);
  if (elsewhere) return forecast(*parsed, &config);
  const auto planned = plan_for(config, gather(where_to_run(*parsed), config));
  fmt::print("{}", plan_table(planned.plan, config));
  for (const auto& warning : planned.warnings) fmt::print("warning: {}\n", warning);
  return 0;
}

}  // namespace trireme::commands
