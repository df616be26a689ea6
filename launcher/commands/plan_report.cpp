#include "launcher/commands/plan_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "trainer/costs/memory.h"

namespace trireme::commands {
namespace {

using costs::PlannedRole;

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string gib(int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / kGiB);
}

std::string duration(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  return seconds < 600 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.1f} min", seconds / 60);
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.1f} GB", bytes / 1e9);
  return fmt::format("{:.1f} MB", bytes / 1e6);
}

std::string ranks_text(int64_t first, int64_t end) {
  return end - first == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, end - 1);
}

std::string heading(const Report& report) {
  const costs::Job& job = report.job;
  const auto& work = job.work;
  std::string text =
      fmt::format("{}, {:.2f} billion parameters, {}, on {} of {}\n", job.model.name,
                  static_cast<double>(job.model.num_parameters()) / 1e9, job.target.fp32() ? "fp32" : "bf16",
                  ranks_text(0, job.ranks()), job.machine.text());
  text += fmt::format(
      "a step: {:.0f} prompts x {:.0f}, {:.0f} tokens of prompt and {:.0f} of response in the mean, {:.0f} "
      "at "
      "most, {:.0f} update{}\n",
      work.prompts, work.samples, work.prompt_tokens, work.response_tokens, work.response_limit, work.updates,
      work.updates == 1 ? "" : "s");
  for (const PlannedRole which : costs::kPlannedRoles) {
    const auto& role = job.role(which);
    if (role.present)
      text += fmt::format("  {:<10} {:<14} {}\n", to_string(which), ranks_text(role.first, role.end()),
                          role.layout.text());
  }
  return text;
}

std::string memory_text(const Report& report) {
  const costs::Outcome& outcome = report.outcome;
  std::string text = fmt::format("\nmemory of a device: {}\n", gib(outcome.device_bytes));
  for (const costs::RankMemory& ranks : outcome.memory) {
    text += fmt::format("  {}: peak {}\n", ranks_text(ranks.first, ranks.end), gib(ranks.peak_bytes()));
    for (const auto& part : ranks.held)
      text += fmt::format("    {:<24} {:>12}\n", part.name, gib(part.bytes));
    for (const auto& part : ranks.phases)
      text += fmt::format("    + in {:<19} {:>12}\n", part.name, gib(part.bytes));
  }
  if (!outcome.fits) text += "  DOES NOT FIT: " + outcome.why_not + "\n";
  if (const int64_t most = costs::largest_micro_tokens(report.job); most > 0)
    text += fmt::format("  largest micro-batch: {} tokens (actor.ppo_max_token_len_per_rank = {})\n", most,
                        report.job.role(PlannedRole::actor).layout.micro_tokens);
  if (outcome.kv_wanted > 0)
    text += fmt::format(
        "  KV cache: {} tokens; there is room for {} beside everything else, and use for {}; {:.0f} "
        "sequences at a "
        "time\n",
        outcome.kv_tokens, outcome.kv_most, outcome.kv_wanted, outcome.decode_slots);
  return text;
}

std::string time_text(const Report& report) {
  const costs::StepTime& time = report.outcome.time;
  std::string text =
      fmt::format("\ntime of a step: {}, {:.0f} tokens/s\n  {:<16} {:>9} {:>6}  {}\n", duration(time.seconds),
                  report.outcome.tokens_per_second, "stage", "time", "share",
                  "of it work, messages, bubble, uneven, tail, overhead; bytes a device sends");
  for (const auto& stage : time.stages) {
    const double all = std::max(stage.total(), 1e-12);
    text += fmt::format(
        "  {:<16} {:>9} {:>4.0f} %  {:.0f}, {:.0f}, {:.0f}, {:.0f}, {:.0f}, {:.0f} %; fabric {}, network "
        "{}\n",
        stage.name, duration(stage.total()), 100 * stage.total() / time.seconds, 100 * stage.work / all,
        100 * stage.communication / all, 100 * stage.bubble / all, 100 * stage.uneven / all,
        100 * stage.tail / all, 100 * stage.overhead / all, bytes_text(stage.links.fabric_bytes),
        bytes_text(stage.links.network_bytes));
  }
  if (report.job.steps_ahead)
    text += "  gen goes on beside the stages between it and update_weights (rollout.steps_ahead)\n";
  if (report.job.stream)
    text += "  gen goes on beside the stages between it and update_weights, a mini-batch at a time (rollout.stream)\n";
  text += "\nranks' time without work\n";
  for (const auto& idle : report.outcome.idle)
    text += fmt::format("  {:>5.1f} %  {}\n", 100 * idle.share, idle.cause);
  text += fmt::format("\ncost: {:.3f} device-hours a step, {:.1f} for 1,000", report.outcome.device_hours,
                      1000 * report.outcome.device_hours);
  if (report.price > 0)
    text += fmt::format(", {:.2f} at {} an hour", 1000 * report.outcome.device_hours * report.price,
                        report.price);
  return text + "\n";
}

std::string advice_text(const Report& report) {
  const auto changes = costs::changes_of(report.job, report.outcome);
  const auto good = costs::worthwhile(changes);
  std::string text = "\nwhat would help most, one change at a time\n";
  size_t shown = 0;
  for (const auto& change : good) {
    if (++shown > 5) break;
    text += change.fits_at_last ? fmt::format("  {}: fits, a step takes {}\n", change.setting,
                                              duration(change.outcome.time.seconds))
                                : fmt::format("  {}: a step takes {}, {:.0f} % less\n", change.setting,
                                              duration(change.outcome.time.seconds), 100 * change.gain);
  }
  if (good.empty())
    text += report.outcome.fits ? "  no single change saves 1 %\n"
                                : "  no single change is enough; more ranks, or `trireme plan --explore`\n";
  return text;
}

// What people are told to set by rule, worked out for this run.
std::string rules_text(const Report& report) {
  const costs::Job& job = report.job;
  const costs::Outcome& outcome = report.outcome;
  std::string text = "\nrules of thumb, and this run\n";
  const int64_t most = costs::largest_micro_tokens(job);
  if (most > 0) {
    costs::Job filled = job;
    filled.role(PlannedRole::actor).layout.micro_tokens = most;
    const double gain = 1 - costs::outcome_of(filled).time.seconds / outcome.time.seconds;
    text += fmt::format(
        "  \"micro-batches that fill the memory\": {} tokens instead of {} change a step by {:.1f} %\n", most,
        job.role(PlannedRole::actor).layout.micro_tokens, -100 * gain);
  }
  if (outcome.kv_wanted > 0) {
    const auto token = static_cast<double>(
        job.model.kv_bytes_per_token(job.target.element, job.role(PlannedRole::rollout).layout.tp));
    text += fmt::format(
        "  \"gpu_memory_utilization 0.8 to 0.9\": the cache has use for {:.1f} GiB and room for {:.1f}; "
        "rollout.kv_cache_tokens = {} says it exactly\n",
        static_cast<double>(outcome.kv_wanted) * token / kGiB,
        static_cast<double>(outcome.kv_most) * token / kGiB, std::min(outcome.kv_wanted, outcome.kv_most));
    const double gen = outcome.time.stage("gen") / outcome.time.seconds;
    double tail = 0;
    for (const auto& stage : outcome.time.stages)
      if (stage.name == "gen") tail = stage.tail / std::max(stage.total(), 1e-12);
    text += fmt::format(
        "  \"rollout above 30 % of a step wants more ranks\": it is {:.0f} %, of which {:.0f} % wait for the "
        "longest "
        "responses, and more ranks do not shorten those\n",
        100 * gen, 100 * tail);
  }
  const auto state = costs::state_bytes(job.model, job.role(PlannedRole::actor).layout, job.target);
  const auto moved = static_cast<double>(state.moments);
  text += fmt::format(
      "  \"offload the optimizer\": actor.optimizer_offload {} {:.1f} GiB and takes {} a step over the host's "
      "link, there and back\n",
      job.role(PlannedRole::actor).layout.optimizer_offload ? "frees" : "would free",
      moved / kGiB, duration(2 * moved * job.work.updates / job.machine.device.host_rate));
  return text;
}

std::string constants_text(const costs::Constants& constants, const std::string& machine_source) {
  std::string text = "\nwhat this rests on\n";
  if (!machine_source.empty()) text += "  the machine: " + machine_source + "\n";
  for (const auto& constant : constants.all)
    text += fmt::format("  {:<17} {:>9.3g} {:<38} {}\n", constant.name, constant.value, constant.unit,
                        constant.source);
  return text;
}

}  // namespace

std::string report_text(const Report& report) {
  std::string text = heading(report) + memory_text(report) + time_text(report) + advice_text(report) +
                     rules_text(report) + constants_text(report.job.constants, report.machine_source);
  if (!report.job.target.on_cpu)
    text +=
        "  constants of GPUs come from other programs' runs: Trireme has not been timed on GPUs. Its "
        "attention's "
        "backward pass there is plain arithmetic that keeps all scores, which memory counts and time does "
        "not\n";
  return text;
}

std::string search_text(const costs::Search& search, const costs::Job& job) {
  std::string text = fmt::format("{} layouts and placements of {} on {}: {} fit\n", search.tried,
                                 job.model.name, job.machine.text(), search.fitting);
  if (search.best.empty())
    return text + "none fits: more ranks, devices with more memory, or shorter sequences are needed\n";
  for (size_t i = 0; i < search.best.size(); ++i)
    text += fmt::format("  {}. {:>9} a step, {:>7.0f} tokens/s  {}\n", i + 1,
                        duration(search.best[i].outcome.time.seconds),
                        search.best[i].outcome.tokens_per_second, search.best[i].text());
  text += "\nwhy the first\n";
  for (const auto& line : search.because) text += "  - " + line + "\n";
  return text;
}

std::string comparison_text(const std::vector<costs::Comparison>& comparisons,
                            const costs::Constants& constants) {
  std::string text = fmt::format("{:<52} {:<17} {:<8} {:>9} {:>10} {:>6}\n", "run", "stage", "use",
                                 "stated s", "predicted", "ratio");
  for (const auto& each : comparisons)
    text += fmt::format("{:<52} {:<17} {:<8} {:>9.3f} {:>10.3f} {:>6.2f}\n", each.name, each.stages,
                        each.fitted ? "fit" : "predict", each.stated, each.predicted, each.ratio());
  for (const bool fitted : {true, false})
    text += fmt::format("half of those {} are within a factor of {:.2f}\n",
                        fitted ? "that constants were fitted to" : "that were predicted",
                        costs::median_factor(comparisons, fitted));
  return text + constants_text(constants, "");
}

}  // namespace trireme::commands
