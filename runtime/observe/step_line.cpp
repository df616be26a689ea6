#include "runtime/observe/step_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace trireme::observe {
namespace {

// Few digits, and for values of usual size the same number of them, so that lines stand in columns.
std::string brief(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (value == 0) return "0";
  if (size < 0.01) return fmt::format("{:.2g}", value);
  if (size < 100) return fmt::format("{:.2f}", value);
  return with_thousands(value);
}

std::string stage_times(const std::vector<std::pair<std::string, double>>& stages) {
  double longest = 0;
  for (const auto& [stage, seconds] : stages) longest = std::max(longest, seconds);
  const bool in_seconds = longest > 10;
  std::string text;
  for (const auto& [stage, seconds] : stages) {
    const bool first = text.empty();
    text += fmt::format("{}{} {}{}", first ? "" : " | ", stage_label(stage),
                        in_seconds ? fmt::format("{:.1f}", seconds) : with_thousands(seconds * 1000),
                        first ? (in_seconds ? " s" : " ms") : "");
  }
  return text;
}

}  // namespace

std::string stage_label(const std::string& stage) {
  static const std::map<std::string, std::string> labels = {
      {"gen", "rollout"},          {"old_log_prob", "old"},    {"update_actor", "actor"},
      {"update_critic", "critic"}, {"update_weights", "sync"}, {"save_checkpoint", "save"},
      {"testing", "eval"}};
  const auto found = labels.find(stage);
  return found == labels.end() ? stage : found->second;
}

std::string with_thousands(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (auto place = static_cast<ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3)
    digits.insert(static_cast<size_t>(place), ",");
  return value < 0 && digits != "0" ? "-" + digits : digits;
}

std::string step_line(const StepLine& line) {
  std::string text = fmt::format("{} {}", line.phase, line.step);
  if (line.total > 0) text += fmt::format("/{}", line.total);
  for (const auto& [label, value] : line.values) text += fmt::format("  {} {}", label, brief(value));
  if (!line.stages.empty()) text += "  " + stage_times(line.stages);
  if (std::isfinite(line.tokens_per_second) && line.tokens_per_second > 0)
    text += fmt::format("  {} tok/s", with_thousands(line.tokens_per_second));
  return text;
}

}  // namespace trireme::observe
