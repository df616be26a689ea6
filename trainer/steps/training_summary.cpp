// summary.json, and what a user reads at the end.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "runtime/observe/step_line.h"
#include "trainer/steps/training_loop.h"

namespace trireme::steps {

namespace fs = std::filesystem;

void TrainingLoop::write_summary() {
  if (!writes()) return;
  nlohmann::ordered_json summary;
  for (const auto& [key, value] : state_.results)
    if (key.starts_with("eval_") || key.starts_with("val_loss_")) summary[key] = value;
  summary["steps"] = state_.step;
  summary["ranks"] = context_.session.num_ranks();
  summary["tokens_per_second"] = token_seconds_ > 0 ? tokens_ / token_seconds_ : 0.0;
  summary["seconds_total"] = state_.results["seconds_total"];
  summary["seconds"] = seconds_;
  files::write_atomically((fs::path(config_.run_dir) / "summary.json").string(), summary.dump(2) + "\n");

  print("");
  for (const auto& [key, label] :
       {std::pair{"eval_before", "accuracy before"}, std::pair{"eval_after_sft", "accuracy after SFT"},
        std::pair{"eval_after", "accuracy after"}})
    if (state_.results.contains(key))
      print(fmt::format("{:<20}{:>6.1f} %  of {} held-out problems", label, 100 * state_.results.at(key),
                        judged().size()));
  for (const auto& [key, label] : {std::pair{"eval_before_reward", "reward before"},
                                   std::pair{"eval_after_sft_reward", "reward after SFT"},
                                   std::pair{"eval_after_reward", "reward after"}})
    if (state_.results.contains(key))
      print(fmt::format("{:<20}{:>8.3f}  on {} held-out problems", label, state_.results.at(key),
                        judged().size()));
  for (const auto& [key, label] :
       {std::pair{"val_loss_before", "loss before"}, std::pair{"val_loss_after", "loss after"}})
    if (state_.results.contains(key))
      print(fmt::format("{:<20}{:>8.4f}  on {} held-out examples", label, state_.results.at(key),
                        context_.problems.val.size()));
  for (const auto& [key, label] :
       {std::pair{"eval_after_sft", "pairs after SFT"}, std::pair{"eval_before", "pairs before"},
        std::pair{"eval_after", "pairs after"}})
    if (const auto pairs = state_.results.find(std::string(key) + "_pairs"); pairs != state_.results.end())
      print(fmt::format("{:<20}{:>6.1f} %  of {} held-out pairs told apart, margin {:.3f}", label,
                        100 * pairs->second, context_.problems.val.size(),
                        state_.results.at(std::string(key) + "_margin")));
  if (token_seconds_ > 0)  // a run that was complete already made no step
    print(fmt::format("{:<20}{:>8} tok/s", "throughput",
                      observe::with_thousands(summary["tokens_per_second"].get<double>())));
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [stage, seconds] : seconds_) parts.emplace_back(seconds, stage);
  std::sort(parts.rbegin(), parts.rend());
  std::string where;
  for (const auto& [seconds, stage] : parts)
    if (seconds >= 0.1)
      where += fmt::format("{}{} {:.1f} s", where.empty() ? "" : " | ", observe::stage_label(stage), seconds);
  if (!where.empty()) print(fmt::format("{:<20}{}", "time", where));
  print(fmt::format("{:<20}{}", "run folder", config_.run_dir));
}

}  // namespace trireme::steps
