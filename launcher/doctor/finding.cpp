#include "launcher/doctor/finding.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/base/error.h"

namespace trireme::doctor {

const char* to_string(Severity severity) {
  return severity == Severity::error ? "error" : "warning";
}

std::vector<Finding> sorted(std::vector<Finding> findings) {
  std::vector<Finding> merged;
  for (auto& finding : findings) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Finding& other) {
      return std::tie(other.severity, other.check, other.what, other.why, other.to_do) ==
             std::tie(finding.severity, finding.check, finding.what, finding.why, finding.to_do);
    });
    if (same == merged.end())
      merged.push_back(std::move(finding));
    else
      same->hosts.insert(same->hosts.end(), finding.hosts.begin(), finding.hosts.end());
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return merged;
}

std::string list_text(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

std::string rate_text(double bytes) {
  return bytes < 1e8 ? fmt::format("{:.1f} MB/s", bytes * 1e-6) : fmt::format("{:.2f} GB/s", bytes * 1e-9);
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& finding : findings)
    text += fmt::format("{}{}: {}: {}\n  why it matters: {}\n  what to do: {}\n", text.empty() ? "" : "\n",
                        to_string(finding.severity), list_text(finding.hosts), finding.what, finding.why,
                        finding.to_do);
  return text;
}

std::string to_json(const std::vector<Finding>& findings, const std::vector<std::string>& hosts) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& finding : findings)
    list.push_back({{"severity", to_string(finding.severity)},
                    {"check", finding.check},
                    {"hosts", finding.hosts},
                    {"what", finding.what},
                    {"why", finding.why},
                    {"to_do", finding.to_do}});
  const nlohmann::ordered_json whole = {{"hosts", hosts}, {"findings", list}};
  return whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trireme::doctor
