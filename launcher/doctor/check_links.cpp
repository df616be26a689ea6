#include <algorithm>
#include <map>

#include "launcher/doctor/checks.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

constexpr double kSlow = 0.25;  // of the fastest pair

// The hosts that are in every bad pair they could be in: theirs is the fault.
std::vector<int> culprits(const std::vector<Link>& bad, size_t num_hosts) {
  std::map<int, size_t> count;
  for (const auto& link : bad) {
    ++count[link.from];
    ++count[link.to];
  }
  std::vector<int> found;
  for (const auto& [host, times] : count)
    if (num_hosts > 2 && times == num_hosts - 1) found.push_back(host);
  return found.size() < num_hosts ? found : std::vector<int>{};
}

void report(const std::vector<std::string>& hosts, const std::vector<Link>& bad, const Finding& pattern,
            const std::string& alone, const auto& pair_text, std::vector<Finding>& findings) {
  const auto guilty = culprits(bad, hosts.size());
  for (const int host : guilty) {
    auto finding = pattern;
    finding.hosts = {hosts[static_cast<size_t>(host)]};
    const auto example = std::find_if(bad.begin(), bad.end(),
                                      [&](const Link& link) { return link.from == host || link.to == host; });
    finding.what = fmt::format("{}: {}", alone, pair_text(*example));
    findings.push_back(std::move(finding));
  }
  for (const auto& link : bad) {
    const auto is_guilty = [&](int host) {
      return std::find(guilty.begin(), guilty.end(), host) != guilty.end();
    };
    if (is_guilty(link.from) || is_guilty(link.to)) continue;
    auto finding = pattern;
    finding.hosts = {hosts[static_cast<size_t>(link.from)], hosts[static_cast<size_t>(link.to)]};
    finding.what = pair_text(link);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> check_links(const std::vector<std::string>& hosts, const std::vector<Link>& links) {
  std::vector<Finding> findings;
  double best = 0.0;
  for (const auto& link : links)
    if (link.error.empty()) best = std::max(best, link.slower());
  std::vector<Link> cut, slow;
  for (const auto& link : links) {
    if (!link.error.empty())
      cut.push_back(link);
    else if (link.slower() < kSlow * best)
      slow.push_back(link);
  }
  const auto pair = [&](const Link& link) {
    return fmt::format("{} and {}", hosts[static_cast<size_t>(link.from)],
                       hosts[static_cast<size_t>(link.to)]);
  };
  report(
      hosts, cut,
      {.severity = Severity::error,
       .check = "network",
       .why = "MPI and NCCL connect every host with every other, and hang where they cannot",
       .to_do =
           "open all TCP ports between the hosts of a run; look at the routes and the interfaces' addresses"},
      "no other host reaches it",
      [&](const Link& link) { return fmt::format("{} do not reach each other: {}", pair(link), link.error); },
      findings);
  report(
      hosts, slow,
      {.severity = Severity::warning,
       .check = "network",
       .why =
           "a collective is as slow as its slowest pair. This was TCP: with RDMA the HCAs' ports count more",
       .to_do = "look at the cable, the switch's port, the interface's speed (`ethtool`) and other traffic"},
      "its way to all other hosts is slow",
      [&](const Link& link) {
        return fmt::format(
            "{} move {} to and {} back ({:.2f} ms for a round trip); the fastest pair moves {}", pair(link),
            rate_text(link.there), rate_text(link.back), link.round_trip * 1e3, rate_text(best));
      },
      findings);
  return findings;
}

}  // namespace trireme::doctor
