// From a configuration and a machine, whether it is here or not, to what trainer/costs plans.
#pragma once

#include <optional>
#include <string>

#include "launcher/commands/parse.h"
#include "trainer/config/run_config.h"
#include "trainer/costs/explore.h"

namespace trireme::commands {

/// --machine, --nodes, --topo, --calibration, --model, --prompts, --samples, --prompt-tokens,
/// --response-tokens, --response-limit.
void add_plan_options(cxxopts::Options& options);

/// A machine that is described, recorded or measured; none where the options name none.
struct PlannedMachine {
  costs::Machine machine;
  costs::Constants constants;
  std::string source;
};
/// Throws invalid_config, io.
std::optional<PlannedMachine> planned_machine(const cxxopts::ParseResult& parsed, bool fp32);

/// `config` null: a GRPO run with the options' sizes. Throws invalid_config where the layouts do not fit.
costs::Job planned_job(const config::RunConfig* config, const cxxopts::ParseResult& parsed,
                       const PlannedMachine& machine, int64_t ranks);

/// What the trainer can do today.
costs::SearchSpace search_space();

}  // namespace trireme::commands
