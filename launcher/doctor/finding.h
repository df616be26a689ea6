// What the doctor has found: one thing that is wrong, why it matters, and what to do about it.
#pragma once

#include <string>
#include <vector>

namespace trireme::doctor {

enum class Severity {
  error,    // a run will fail, hang, or compute on something else than is meant
  warning,  // it will be slow, or fail some day
};
const char* to_string(Severity severity);

struct Finding {
  Severity severity = Severity::warning;
  std::string check;               // "versions", "memlock": which check found it
  std::vector<std::string> hosts;  // where
  std::string what, why, to_do;
};

/// Errors first; what is the same on several hosts becomes one finding.
std::vector<Finding> sorted(std::vector<Finding> findings);

/// "a, b, c and 5 more"
std::string list_text(const std::vector<std::string>& names, size_t most = 8);

/// "12.5 MB/s", "1.20 GB/s"
std::string rate_text(double bytes_a_second);

/// For people, a paragraph each; empty for none.
std::string to_text(const std::vector<Finding>& findings);
/// {"hosts": [...], "findings": [...]}
std::string to_json(const std::vector<Finding>& findings, const std::vector<std::string>& hosts);

}  // namespace trireme::doctor
