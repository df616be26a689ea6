#include "launcher/commands/plan_job.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "launcher/topology/hca_choice.h"
#include "launcher/topology/machine.h"
#include "runtime/base/error.h"
#include "trainer/config/load.h"
#include "trainer/config/roles.h"
#include "trainer/costs/observations.h"

namespace trireme::commands {
namespace {

using costs::PlannedRole;

double number(const cxxopts::ParseResult& parsed, const char* name, double otherwise) {
  if (!parsed.count(name)) return otherwise;
  const double value = parsed[name].as<double>();
  if (!(value > 0) || !std::isfinite(value)) fail(ErrorCode::invalid_config, "--{} {}: above 0", name, value);
  return value;
}

// What `trireme topo --save` wrote: its GPUs by their names, its network by the ports that carry traffic.
costs::Machine recorded_machine(const std::string& path) {
  const topology::SysFiles files(path);
  const auto machine = topology::discover(files);
  if (machine.gpus.empty())
    fail(ErrorCode::invalid_config, "--topo {}: this machine has no GPU; --calibration plans for CPUs", path);
  const costs::Device* device = costs::find_device(machine.gpus.front().name);
  if (!device)
    fail(ErrorCode::invalid_config,
         "--topo {}: its GPUs call themselves '{}', which is none of {}: say what they are by --machine",
         path, machine.gpus.front().name, fmt::join(costs::device_names(), ", "));
  costs::Machine result{*device, static_cast<int64_t>(machine.gpus.size())};
  double bits = 0;
  for (const auto& port : topology::choose_hcas(machine, std::nullopt).used)
    bits += machine.hcas[port.hca].ports[port.port].gbits * 1e9;
  if (bits > 0) {
    result.device.network_rate = bits / 8 / static_cast<double>(machine.gpus.size());
    result.device.source += "; network: the ports of " + path;
  }
  return result;
}

// A checkpoint that is not on this host is planned for by its name, where that is a published shape's:
// "models/Qwen2.5-7B-Instruct".
costs::ModelShape shape_of(const models::ModelConfig& model) {
  const std::filesystem::path folder(model.path);
  if (model.path.empty() || std::filesystem::exists(folder)) return costs::model_shape(model);
  std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string found;
  for (const auto& known : costs::published_shapes())
    if (name.starts_with(known) && known.size() > found.size()) found = known;
  if (found.empty())
    fail(ErrorCode::invalid_config,
         "model.path = \"{}\" is not on this host, and its name is no published shape's: say what it is like "
         "by "
         "--model",
         model.path);
  return costs::find_shape(found);
}

// Of a role's ranks the first and how many; a plan takes them as neighbours.
costs::RoleJob place(const placement::RoleRanks& roles, placement::Role role, costs::Layout layout) {
  const auto& ranks = roles.of(role);
  if (ranks.empty()) return {};
  const auto mesh = roles.mesh(role);
  layout.dp = mesh.dp;
  layout.pp = mesh.pp;
  layout.cp = mesh.cp;
  layout.tp = mesh.tp;
  return {true, *std::ranges::min_element(ranks), layout};
}

costs::Workload workload_of(const config::RunConfig& config) {
  costs::Workload work;
  const bool learns_texts = config.algorithm.name == "sft";
  const bool pairs = config::is_dpo(config);
  work.prompts =
      static_cast<double>(learns_texts ? config.sft.train_batch_size : config.data.train_batch_size);
  work.samples = learns_texts ? 1 : pairs ? 2 : static_cast<double>(config.rollout.n);
  work.prompt_tokens = static_cast<double>(config.data.max_prompt_length) / 2;
  work.response_limit = static_cast<double>(config.data.max_response_length);
  work.response_tokens = work.response_limit / 2;
  const auto updates = [&](int64_t mini_batch, int64_t epochs) {
    const double batch = mini_batch > 0 ? static_cast<double>(mini_batch) : work.prompts;
    return std::max(1.0, work.prompts / batch * static_cast<double>(std::max<int64_t>(1, epochs)));
  };
  work.epochs = static_cast<double>(config.actor.ppo_epochs);
  work.updates = updates(config.actor.ppo_mini_batch_size, config.actor.ppo_epochs);
  const auto critic = steps::resolved(config.critic, config.actor);
  work.critic_updates = updates(critic.ppo_mini_batch_size,
                                critic.ppo_epochs > 0 ? critic.ppo_epochs : config.actor.ppo_epochs);
  return work;
}

void from_config(const config::RunConfig& config, int64_t ranks, costs::Job& job) {
  config::check_ranks(config, static_cast<int>(ranks));
  const auto roles = config::roles_of(config, static_cast<int>(ranks));
  const auto trained = [&](const sharding::TrainingParallelConfig& parallel, int64_t tokens,
                           const memory::RoleOffload& offload) {
    costs::Layout layout;
    layout.param_offload = offload.params;
    layout.optimizer_offload = offload.optimizer;
    layout.activation_offload = config.offload.activations;
    layout.zero_stage = parallel.zero_stage;
    layout.exact = parallel.reduce == "exact";
    layout.recompute = config.model.enable_gradient_checkpointing;
    layout.micro_tokens = tokens;
    return layout;
  };
  using placement::Role;
  job.role(PlannedRole::actor) =
      place(roles, Role::actor, trained(config.parallel.actor, config.actor.ppo_max_token_len_per_rank, config.offload.actor));
  job.role(PlannedRole::critic) =
      place(roles, Role::critic, trained(config.parallel.critic, config.critic.ppo_max_token_len_per_rank, config.offload.critic));
  costs::Layout reader;
  reader.micro_tokens = config.actor.ppo_max_token_len_per_rank;
  reader.param_offload = config.offload.reference.params;
  job.role(PlannedRole::reference) = place(roles, Role::reference, reader);
  reader.micro_tokens = config.reward_model.max_token_len_per_rank;
  job.role(PlannedRole::reward_model) = place(roles, Role::reward_model, reader);
  job.role(PlannedRole::rollout) = place(roles, Role::rollout, {});
  job.work = workload_of(config);
  if (config.algorithm.name == "sft" || config::is_dpo(config))
    job.role(PlannedRole::rollout).present = false;
  const auto& rollout = config.rollout;
  job.limits = {rollout.max_num_seqs,          rollout.max_num_batched_tokens, rollout.page_size,
                config::max_model_len(config), rollout.kv_cache_tokens,        rollout.kv_cache_memory_gb,
                rollout.gpu_memory_utilization, rollout.free_cache_engine};
  const auto of_folder = [&](const std::string& path) {
    models::ModelConfig model = config.model;
    model.path = path;
    return shape_of(model);
  };
  job.critic_model = config.critic.path.empty() ? job.model : of_folder(config.critic.path);
  if (config::has_reward_model(config)) job.reward_model = of_folder(config.reward_model.path);
}

}  // namespace

void add_plan_options(cxxopts::Options& options) {
  const auto text = [] { return cxxopts::value<std::string>(); };
  const auto real = [] { return cxxopts::value<double>(); };
  options.add_options()("machine",
                        "what the run would have: 8xH100, 4x3090, 16x8xA100-40GB (nodes x GPUs x kind)",
                        text(), "MACHINE")("nodes", "so many of them", cxxopts::value<int64_t>(), "NODES")(
      "topo", "a node that `trireme topo --save` recorded", text(), "FILE")(
      "calibration", "CPUs: what `trireme bench train-step --observe` wrote on them", text(), "FILE");
  options.add_options()("model", "a config.json, its folder, or a published shape such as llama-3.1-70b",
                        text(), "MODEL")("prompts", "of a step", real(), "N")(
      "samples", "of each prompt", real(), "N")("prompt-tokens", "their mean", real(), "TOKENS")(
      "response-tokens", "their mean", real(), "TOKENS")("response-limit", "the longest response", real(),
                                                         "TOKENS");
}

std::optional<PlannedMachine> planned_machine(const cxxopts::ParseResult& parsed, bool fp32) {
  const int given =
      static_cast<int>(parsed.count("machine") + parsed.count("topo") + parsed.count("calibration"));
  if (given > 1) fail(ErrorCode::invalid_config, "--machine, --topo and --calibration: give one of them");
  PlannedMachine planned{{}, costs::gpu_constants(), ""};
  if (parsed.count("machine")) {
    planned.machine = costs::parse_machine(parsed["machine"].as<std::string>());
  } else if (parsed.count("topo")) {
    planned.machine = recorded_machine(parsed["topo"].as<std::string>());
  } else if (parsed.count("calibration")) {
    const std::string path = parsed["calibration"].as<std::string>();
    auto seen = costs::read_observations(path);
    for (auto& each : seen) each.fitted = true;
    const auto mine = std::ranges::find_if(seen, [&](const auto& each) {
      return each.job.machine.device.is_cpu && each.job.target.fp32() == fp32;
    });
    if (mine == seen.end())
      fail(ErrorCode::invalid_config, "--calibration {}: holds no run on CPUs in {}", path,
           fp32 ? "fp32" : "bf16");
    planned.machine = mine->job.machine;
    std::erase_if(seen, [&](const auto& each) {
      return !each.job.machine.device.is_cpu || each.job.target.fp32() != fp32;
    });
    planned.constants = costs::fit(seen, costs::cpu_constants());
    for (auto& constant : planned.constants.all)
      if (constant.fitted) constant.source = "fitted to the runs of " + path;
  } else {
    return std::nullopt;
  }
  if (parsed.count("nodes")) {
    const int64_t nodes = parsed["nodes"].as<int64_t>();
    if (nodes < 1) fail(ErrorCode::invalid_config, "--nodes {}: at least 1", nodes);
    planned.machine.nodes = nodes;
  }
  planned.source = planned.machine.device.source;
  return planned;
}

costs::Job planned_job(const config::RunConfig* config, const cxxopts::ParseResult& parsed,
                       const PlannedMachine& machine, int64_t ranks) {
  costs::Job job;
  job.machine = machine.machine;
  job.constants = machine.constants;
  if (parsed.count("model"))
    job.model = costs::find_shape(parsed["model"].as<std::string>());
  else if (config)
    job.model = shape_of(config->model);
  else
    fail(ErrorCode::invalid_config, "neither a CONFIG nor --model says which model is planned for");
  job.critic_model = job.model;
  job.target = {.element = config && config->model.dtype == "fp32" ? 4 : 2,
                .on_cpu = job.machine.device.is_cpu};
  if (config) {
    from_config(*config, ranks, job);
  } else {
    job.work = {
        .prompts = 512, .samples = 8, .prompt_tokens = 256, .response_tokens = 1024, .response_limit = 4096};
    for (const PlannedRole role : {PlannedRole::actor, PlannedRole::reference, PlannedRole::rollout})
      job.role(role) = {true, 0, {.dp = ranks}};
    job.limits.gpu_memory_utilization = 0.9;
  }
  job.critic_model.value_head = job.reward_model.value_head = true;
  costs::Workload& work = job.work;
  work.prompts = number(parsed, "prompts", work.prompts);
  work.samples = number(parsed, "samples", work.samples);
  work.prompt_tokens = number(parsed, "prompt-tokens", work.prompt_tokens);
  work.response_limit = number(parsed, "response-limit", work.response_limit);
  work.response_tokens =
      std::min(number(parsed, "response-tokens", std::min(work.response_tokens, work.response_limit)),
               work.response_limit);
  if (!config) job.limits.max_model_len = static_cast<int64_t>(2 * work.prompt_tokens + work.response_limit);
  // On a GPU rollout's bits are not the update's: several updates need log-probabilities of before.
  work.old_log_prob = !job.target.on_cpu && work.updates > 1 && job.role(PlannedRole::rollout).present &&
                      !(config && config->algorithm.rollout_correction.bypass_mode);
  if (config && config->rollout.steps_ahead > 0) {
    // Rollout's weights are older than those that learn.
    const auto correction = algorithms::resolved(config->algorithm, true).rollout_correction;
    job.steps_ahead = true;
    work.old_log_prob = !correction.bypass_mode && (work.updates > 1 || correction.is_on());
  }
  job.stream = config && config->rollout.stream;
  return job;
}

costs::SearchSpace search_space() {
  return {.most_pp = 8, .most_cp = 8, .steps_ahead = true};
}

}  // namespace trireme::commands
