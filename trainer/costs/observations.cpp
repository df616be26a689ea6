#include "trainer/costs/observations.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::costs {
namespace {

using Json = nlohmann::json;

// A run's fields; mistakes are collected with the run's name.
class Fields {
 public:
  Fields(const Json& object, std::string where, Mistakes& mistakes)
      : object_(object), where_(std::move(where)), mistakes_(mistakes) {}
  double number(const char* name, double otherwise) const {
    const auto found = object_.find(name);
    if (found == object_.end()) return otherwise;
    if (found->is_number() && found->get<double>() >= 0) return found->get<double>();
    mistakes_.add(where_, fmt::format("{} must be a number from 0 on", name));
    return otherwise;
  }
  int64_t count(const char* name, int64_t otherwise) const {
    const double value = number(name, static_cast<double>(otherwise));
    if (value >= 1 && value == std::floor(value)) return static_cast<int64_t>(value);
    mistakes_.add(where_, fmt::format("{} must be a whole number from 1 on", name));
    return otherwise;
  }
  bool flag(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_boolean() && found->get<bool>();
  }
  std::string text(const char* name) const {
    const auto found = object_.find(name);
    if (found != object_.end() && found->is_string()) return found->get<std::string>();
    return "";
  }
  const Json& object(const char* name) const {
    static const Json kNothing = Json::object();
    const auto found = object_.find(name);
    return found != object_.end() && found->is_object() ? *found : kNothing;
  }
  void mistake(const std::string& what) const { mistakes_.add(where_, what); }

 private:
  const Json& object_;
  const std::string where_;
  Mistakes& mistakes_;
};

Layout read_layout(const Json& object, const std::string& where, int64_t ranks, Mistakes& mistakes) {
  const Fields fields(object, where, mistakes);
  Layout layout;
  layout.pp = fields.count("pp", 1);
  layout.cp = fields.count("cp", 1);
  layout.tp = fields.count("tp", 1);
  layout.zero_stage = static_cast<int64_t>(fields.number("zero", 1));
  layout.recompute = fields.flag("recompute");
  layout.exact = fields.flag("exact");
  layout.micro_tokens = fields.count("micro_tokens", 16384);
  const int64_t replica = layout.pp * layout.cp * layout.tp;
  if (ranks % replica != 0)
    fields.mistake(fmt::format("{} ranks are no whole replicas of {}", ranks, replica));
  layout.dp = std::max<int64_t>(1, ranks / replica);
  return layout;
}

Machine read_machine(const Fields& run, const Json& described) {
  if (described.is_string()) return parse_machine(described.get<std::string>());
  Mistakes none;
  const Fields cpu(described, "machine", none);
  return cpu_machine(run.count("ranks", 1), cpu.number("memory_gb", 16) * 1e9,
                     cpu.number("bf16_gflops", 0) * 1e9, cpu.number("fp32_gflops", 0) * 1e9,
                     cpu.number("memory_gb_per_second", 0) * 1e9);
}

ModelShape read_model(const Json& described, const Fields& run) {
  if (described.is_string()) return find_shape(described.get<std::string>());
  Mistakes mistakes;
  const Fields fields(described, "model", mistakes);
  ModelShape shape{"given",
                   fields.count("vocab_size", 32000),
                   fields.count("hidden_size", 1),
                   fields.count("intermediate_size", 1),
                   fields.count("num_hidden_layers", 1),
                   fields.count("num_attention_heads", 1),
                   fields.count("num_key_value_heads", 1),
                   fields.count("head_dim", 64)};
  shape.tie_word_embeddings = fields.flag("tie_word_embeddings");
  shape.qkv_bias = fields.flag("qkv_bias");
  shape.qk_norm = fields.flag("qk_norm");
  if (!described.is_object()) run.mistake("model must be a published shape's name or an object of sizes");
  return shape;
}

Observation read_run(const Json& object, const std::string& path, Mistakes& mistakes) {
  const std::string name = object.value("name", std::string("a run without a name"));
  const Fields run(object, path + ": " + name, mistakes);
  Observation seen{name, run.text("source"), run.text("note"), run.text("use") == "fit"};
  if (!object.contains("machine") || !object.contains("model"))
    run.mistake("machine and model must be there");
  Job& job = seen.job;
  job.machine = read_machine(run, object.value("machine", Json::object()));
  job.model = read_model(object.value("model", Json::object()), run);
  job.critic_model = job.model;
  job.critic_model.value_head = true;
  job.target.on_cpu = job.machine.device.is_cpu;
  job.target.element = run.text("dtype") == "fp32" ? 4 : 2;
  job.target.flash_backward = !job.target.on_cpu;
  job.steps_ahead = run.flag("steps_ahead");
  const int64_t ranks = run.count("ranks", 1), rollout_ranks = run.count("rollout_ranks", ranks);
  const bool apart = object.contains("rollout_ranks");
  const int64_t trained = apart ? ranks - rollout_ranks : ranks;
  if (trained < 1) run.mistake("rollout_ranks must leave some of ranks");
  const auto place = [&](PlannedRole role, int64_t first, int64_t count, const char* layout) {
    job.role(role) = {true, first,
                      read_layout(run.object(layout), name, std::max<int64_t>(1, count), mistakes)};
  };
  place(PlannedRole::actor, 0, trained, "actor");
  if (object.contains("rollout")) place(PlannedRole::rollout, apart ? trained : 0, rollout_ranks, "rollout");
  if (run.flag("reference")) place(PlannedRole::reference, 0, trained, "actor");
  const Fields work(run.object("work"), name, mistakes);
  job.work.prompts = work.number("prompts", 1);
  job.work.samples = work.number("samples", 1);
  job.work.prompt_tokens = work.number("prompt_tokens", 0);
  job.work.response_tokens = work.number("response_tokens", 1);
  job.work.response_limit = work.number("response_limit", job.work.response_tokens);
  job.work.updates = work.number("updates", 1);
  job.work.old_log_prob = run.flag("old_log_prob");
  job.work.shares_prompts = run.flag("shares_prompts");
  seen.slots = work.number("slots", 256);
  for (const auto& [stages, seconds] : run.object("stated").items()) {
    if (!seconds.is_number() || seconds.get<double>() <= 0)
      run.mistake(fmt::format("stated.{} must be a number of seconds above 0", stages));
    else
      seen.stated.push_back({stages, seconds.get<double>()});
  }
  if (seen.stated.empty()) run.mistake("stated must name a stage and its seconds");
  return seen;
}

double predicted_seconds(const StepTime& time, const std::string& stages) {
  if (stages == "step") return time.seconds;
  double sum = 0;
  std::istringstream names(stages);
  for (std::string name; std::getline(names, name, '+');) sum += time.stage(name);
  return sum;
}

double misfit(const std::vector<Observation>& observations, const Constants& constants) {
  double sum = 0;
  for (const Comparison& each : compare(observations, constants))
    if (each.fitted) sum += std::abs(std::log(std::max(each.ratio(), 1e-9)));
  return sum;
}

}  // namespace

std::vector<Observation> read_observations(const std::string& path) {
  const std::string text = files::read(path);
  std::vector<Json> runs;
  const Json whole = Json::parse(text, nullptr, false);
  if (whole.is_object() && whole.contains("runs") && whole["runs"].is_array()) {
    for (const Json& run : whole["runs"]) runs.push_back(run);
  } else {
    std::istringstream lines(text);
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      runs.push_back(Json::parse(line, nullptr, false));
      if (!runs.back().is_object())
        fail(ErrorCode::invalid_config, "{}:{}: holds no run as a JSON object", path, number);
    }
  }
  Mistakes mistakes;
  std::vector<Observation> observations;
  for (const Json& run : runs) {
    if (run.is_object())
      observations.push_back(read_run(run, path, mistakes));
    else
      mistakes.add(path, "a run must be a JSON object");
  }
  // A machine that is shared shows what it can do at best in the best of several measurements.
  Device best;
  for (const Observation& seen : observations) {
    const Device& device = seen.job.machine.device;
    if (!device.is_cpu) continue;
    best.bf16_flops = std::max(best.bf16_flops, device.bf16_flops);
    best.fp32_flops = std::max(best.fp32_flops, device.fp32_flops);
    best.memory_rate = std::max(best.memory_rate, device.memory_rate);
  }
  for (Observation& seen : observations) {
    Machine& machine = seen.job.machine;
    if (machine.device.is_cpu)
      machine = cpu_machine(machine.devices_per_node, machine.device.memory_bytes, best.bf16_flops,
                            best.fp32_flops, best.memory_rate);
  }
  if (runs.empty()) mistakes.add(path, "holds no run");
  mistakes.throw_if_any("these runs cannot be compared with");
  return observations;
}

std::vector<Comparison> compare(const std::vector<Observation>& observations, const Constants& constants) {
  std::vector<Comparison> result;
  for (const Observation& seen : observations) {
    Job job = seen.job;
    job.constants = constants;
    const StepTime time = step_time(job, seen.slots);
    for (const auto& stated : seen.stated)
      result.push_back(
          {seen.name, stated.stages, seen.fitted, stated.seconds, predicted_seconds(time, stated.stages)});
  }
  return result;
}

double median_factor(const std::vector<Comparison>& comparisons, bool fitted) {
  std::vector<double> factors;
  for (const Comparison& each : comparisons)
    if (each.fitted == fitted) factors.push_back(std::max(each.ratio(), 1 / each.ratio()));
  if (factors.empty()) return 1;
  std::ranges::sort(factors);
  return factors[factors.size() / 2];
}

Constants fit(const std::vector<Observation>& observations, Constants start) {
  // One constant after the other, by ever smaller factors: the misfit has kinks, and few minima.
  double best = misfit(observations, start);
  for (double step = 1.6; step > 1.002; step = std::sqrt(step)) {
    for (bool better = true; better;) {
      better = false;
      for (ConstantValue& constant : start.all) {
        if (!constant.fitted) continue;
        for (const double factor : {step, 1 / step}) {
          const double before = constant.value;
          constant.value *= factor;
          const bool is_share = std::string(constant.name).ends_with("_share");
          const double now = is_share && constant.value > 1 ? 1e30 : misfit(observations, start);
          if (now < best - 1e-9) {
            best = now;
            better = true;
          } else {
            constant.value = before;
          }
        }
      }
    }
  }
  return start;
}

}  // namespace trireme::costs
