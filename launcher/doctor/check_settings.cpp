#include "launcher/doctor/checks.h"
#include "launcher/topology/inherited.h"
#include "runtime/base/error.h"

namespace trireme::doctor {

std::vector<Finding> check_settings(const Patients& patients) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    const auto choice = topology::choose_hcas(patient.machine, patient.settings.find("NCCL_IB_HCA"));
    for (const auto& remark : topology::remarks(patient.settings, patient.machine, choice)) {
      if (remark.kind == topology::Remark::Kind::useless) continue;
      const bool wrong = remark.kind == topology::Remark::Kind::wrong;
      findings.push_back(
          {.severity = wrong ? Severity::error : Severity::warning,
           .check = "settings",
           .hosts = {patient.host},
           .what = fmt::format("{}={} ({}): {}", remark.name, remark.value, remark.source, remark.text),
           .why = wrong ? "it fails, hangs, or does something else than is written" : "it costs speed",
           .to_do = "take it out; `trireme topo` shows what is set instead"});
    }
  }
  return findings;
}

}  // namespace trireme::doctor
