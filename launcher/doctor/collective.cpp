#include "launcher/doctor/collective.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostLines = 6;

}  // namespace

std::vector<std::string> collective_arguments() {
  return {"bench",    "comm",   "--ops",        "all_reduce", "--min-bytes", "8", "--max-bytes", "4M",
          "--factor", "524288", "--iterations", "5",          "--warmup",    "2", "--json"};
}

Collective collective_from(const std::string& printed, int status, bool timed_out) {
  Collective result{.tried = true, .timed_out = timed_out, .status = status};
  std::vector<std::string> others;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.contains("results")) {
      if (line.find_first_not_of("- \t\r") != std::string::npos) others.push_back(line);
      continue;
    }
    result.device = json.value("device", "");
    for (const Json& row : json.at("results")) {
      result.bytes_a_second = 1e9 * row.value("busbw", 0.0);
      result.wrong += row.value("wrong", int64_t{0});
    }
  }
  if (others.size() > kMostLines) others.erase(others.begin(), others.end() - kMostLines);
  for (const auto& line : others) result.said += "\n  | " + line;
  return result;
}

std::vector<Finding> check_collective(const std::vector<std::string>& hosts, const Collective& collective) {
  if (!collective.tried) return {};
  const bool nccl = !collective.device.empty() && collective.device != "CPU";
  Finding finding{.severity = Severity::error,
                  .check = "collective",
                  .hosts = hosts,
                  .what = "",
                  .why = "every run begins with one",
                  .to_do = fmt::format(
                      "look at what is said above; OMPI_MCA_btl_tcp_if_include{} may name an interface that "
                      "leads nowhere, and a firewall may let some ports pass only",
                      nccl ? " and NCCL_SOCKET_IFNAME" : "")};
  if (collective.timed_out)
    finding.what = "an all-reduce between all hosts does not end" + collective.said;
  else if (collective.status != 0)
    finding.what = fmt::format("an all-reduce between all hosts fails (status {}){}", collective.status,
                               collective.said);
  else if (collective.wrong > 0)
    finding.what = fmt::format("an all-reduce between all hosts has {} wrong elements", collective.wrong);
  else
    return {};
  return {finding};
}

}  // namespace trireme::doctor
