#include <algorithm>

#include "launcher/doctor/checks.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

constexpr double kLongCheckpoint = 600;  // seconds

std::string size_text(int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
}

}  // namespace

std::vector<Finding> check_files(const Patients& patients) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    if (!patient.probe) continue;
    for (const auto& [path, why] : patient.probe->unreadable)
      findings.push_back({.severity = Severity::error,
                          .check = "files",
                          .hosts = {patient.host},
                          .what = fmt::format("{} cannot be read: {}", path, why),
                          .why = "every rank reads it when the run starts",
                          .to_do =
                              "put it on a file system that all hosts share, or copy it to the same place; "
                              "look at the permissions"});
  }
  return findings;
}

std::vector<Finding> check_folder(const Patients& patients, const std::string& folder,
                                  int64_t checkpoint_bytes, int64_t written_bytes) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    if (!patient.probe) continue;
    const auto& found = patient.probe->folder;
    const auto add = [&](Severity severity, const std::string& what, const std::string& why,
                         const std::string& to_do) {
      findings.push_back({.severity = severity,
                          .check = "checkpoints",
                          .hosts = {patient.host},
                          .what = what,
                          .why = why,
                          .to_do = to_do});
    };
    const std::string full = "make room, or choose another place with run.output_dir";
    if (!found.error.empty())
      add(Severity::error, fmt::format("nothing can be written into {}: {}", folder, found.error),
          "the run would end at its first checkpoint", full + "; look at the permissions");
    else if (found.free_bytes < checkpoint_bytes)
      add(Severity::error,
          fmt::format("{} has {} left; a checkpoint takes about {}", folder, size_text(found.free_bytes),
                      size_text(checkpoint_bytes)),
          "the run would end at its first checkpoint", full);
    if (!found.sees_token)
      add(Severity::error,
          fmt::format("{} is not the same folder here as on {}", folder, patients.front().host),
          "every rank writes its part of a checkpoint there, and a restart on other hosts reads all of them",
          "set run.output_dir to a folder on a file system that all hosts share");
    const double seconds = written_bytes > 0 ? found.write_seconds * static_cast<double>(checkpoint_bytes) /
                                                   static_cast<double>(written_bytes)
                                             : 0;
    if (found.error.empty() && seconds > kLongCheckpoint)
      add(Severity::warning,
          fmt::format("{} takes {:.0f} MB/s: a checkpoint of {} takes about {:.0f} minutes", folder,
                      static_cast<double>(written_bytes) * 1e-6 / found.write_seconds,
                      size_text(checkpoint_bytes), seconds / 60),
          "the run stands still meanwhile",
          "choose a faster place with run.output_dir, or raise trainer.save_freq");
  }
  return findings;
}

}  // namespace trireme::doctor
