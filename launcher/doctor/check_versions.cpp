#include <algorithm>
#include <map>

#include "launcher/doctor/checks.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

// Versions of one host: its programs', and those that its files tell.
std::map<std::string, std::string> versions_of(const Patient& patient) {
  auto versions = patient.probe->versions;
  const auto read = [&](const std::string& name, const std::string& path) {
    if (const auto text = patient.files.line(path)) versions[name] = *text;
  };
  read("NVIDIA's driver", "sys/module/nvidia/version");
  read("AMD's driver", "sys/module/amdgpu/version");
  for (const auto& hca : patient.machine.hcas) {
    const auto folder = "sys/class/infiniband/" + hca.name;
    read("firmware of HCAs " + patient.files.line(folder + "/board_id").value_or(""), folder + "/fw_ver");
  }
  return versions;
}

Finding difference(const std::string& name,
                   const std::map<std::string, std::vector<std::string>>& by_version) {
  const auto usual = std::max_element(by_version.begin(), by_version.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  Finding finding{.severity = Severity::error,
                  .check = "versions",
                  .hosts = {},
                  .what = fmt::format("{} is not the same everywhere: ", name),
                  .why = "ranks that differ may not understand each other, hang, or compute other numbers",
                  .to_do = "install the same on all hosts"};
  std::string text;
  for (const auto& [version, hosts] : by_version) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", version.empty() ? "nothing" : version,
                        list_text(hosts));
    if (version != usual->first) finding.hosts.insert(finding.hosts.end(), hosts.begin(), hosts.end());
  }
  finding.what += text;
  if (name.starts_with("build"))
    finding.to_do = "copy the same build to all hosts, or install it on a folder that they share";
  return finding;
}

}  // namespace

std::vector<Finding> check_versions(const Patients& patients) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> found;  // name, version, hosts
  std::vector<std::pair<std::string, std::map<std::string, std::string>>> all;
  for (const auto& patient : patients)
    if (patient.probe) all.emplace_back(patient.host, versions_of(patient));
  for (const auto& [host, versions] : all)
    for (const auto& [name, version] : versions) found[name];
  for (auto& [name, by_version] : found)
    for (const auto& [host, versions] : all) {
      const auto at = versions.find(name);
      by_version[at == versions.end() ? "" : at->second].push_back(host);
    }
  std::vector<Finding> findings;
  for (const auto& [name, by_version] : found)
    if (by_version.size() > 1) findings.push_back(difference(name, by_version));
  for (const auto& [host, versions] : all)
    if (const auto at = versions.find("trireme-trainer");
        at != versions.end() && at->second == "does not start")
      findings.push_back({.severity = Severity::error,
                          .check = "versions",
                          .hosts = {host},
                          .what = "trireme-trainer does not start",
                          .why = "every rank is one",
                          .to_do =
                              "`trireme-trainer --version` on that host says why: a library is missing, or "
                              "LD_LIBRARY_PATH is (--export)"});
  return findings;
}

}  // namespace trireme::doctor
