#include <fmt/format.h>

#include <algorithm>

#include "launcher/commands/commands.h"
#include "launcher/commands/parse.h"
#include "runtime/base/error.h"
#include "trainer/config/load.h"
#include "trainer/config/schema.h"
#include "trainer/config/show.h"
#include "trainer/costs/kv_budget.h"
#include "trainer/costs/model_shape.h"
#include "trainer/sandbox/sandbox.h"

namespace trireme::commands {
namespace {

bool computes_on_cpu(const config::RunConfig& config) {
#ifdef TRIREME_WITH_GPU
  return config.run.device == "cpu";
#else
  return config.run.device != "cuda";
#endif
}

// What a rollout rank will find room for; a GPU's memory is the rank's to see, so there the rule is said.
std::string kv_cache_text(const config::RunConfig& config) {
  const auto& rollout = config.rollout;
  const bool by_memory = rollout.kv_cache_tokens == 0 && rollout.kv_cache_memory_gb == 0;
  const bool on_cpu = computes_on_cpu(config);
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const costs::DeviceMemory memory =
      by_memory && on_cpu ? costs::host_memory(config.run.ranks) : costs::DeviceMemory{INT64_MAX / 2, 0};
  const int64_t token_bytes = costs::model_shape(config.model)
                                  .kv_bytes_per_token(config.model.dtype == "fp32" ? 4 : 2,
                                                      config.parallel.rollout.tp);
  const costs::KvBudget budget =
      costs::plan_kv_cache(rollout, config::max_model_len(config), token_bytes, memory);
  std::string text = budget.text() + ", on each rank of rollout";
  if (by_memory)
    text += fmt::format(
        "\n  fewer where rollout.gpu_memory_utilization = {} of {}, less what weights and steps take, "
        "holds fewer: rollout.kv_cache_tokens or rollout.kv_cache_memory_gb fixes it",
        rollout.gpu_memory_utilization,
        on_cpu ? fmt::format("a rank's {:.1f} GiB of this machine", static_cast<double>(memory.total) / kGiB)
               : std::string("the GPU's memory"));
  return text;
}

// What layouts ask of a model that only its folder tells.
void check_layouts(const config::RunConfig& config) {
  const costs::ModelShape shape = costs::model_shape(config.model);
  Mistakes mistakes;
  const auto check_role = [&](const char* role, bool exists, const auto& parallel) {
    if (!exists) return;
    if (parallel.pp > shape.num_hidden_layers)
      mistakes.add(fmt::format("{}.parallel.pp", role),
                   fmt::format("{} stages need a layer each, and the model has {}", parallel.pp,
                               shape.num_hidden_layers));
    const auto possible = costs::possible_tp(shape, parallel.tp);
    if (std::ranges::find(possible, parallel.tp) == possible.end())
      mistakes.add(fmt::format("{}.parallel.tp", role),
                   fmt::format("{} ranks cannot share out the model's heads and layers evenly; these can: {}",
                               parallel.tp, fmt::join(costs::possible_tp(shape, 1024), ", ")));
  };
  check_role("actor", true, config.parallel.actor);
  if (config.critic.path.empty()) check_role("critic", config::has_critic(config), config.parallel.critic);
  check_role("reference", config::has_reference(config), config.parallel.reference);
  check_role("rollout", config::has_rollout(config), config.parallel.rollout);
  mistakes.throw_if_any("layouts that do not fit the model");
}

int check(const ConfigArguments& given) {
  const config::RunConfig config = config::load(given.path, given.overrides);
  check_layouts(config);
  const bool has_code = !config.reward.function.path.empty() || !config.reward.command.empty();
  if (config.reward.name == "code" && !has_code && config::has_rollout(config))
    sandbox::Sandbox{config.reward.code.python};  // or it says what is missing
  const std::string kv_cache = config::has_rollout(config) ? kv_cache_text(config) + "\n" : "";
  fmt::print("{}: no mistakes found\n{}", given.path, kv_cache);
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
                 "check    lists every mistake of a configuration, and says how large the KV cache will be\n"
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
