// What the hosts of a job have: read on each of them by a process that the job's own backend starts there,
// which also shows that it can be started and reaches us.
#pragma once

#include <string>
#include <vector>

#include "launcher/backends/backend.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/make_plan.h"
#include "runtime/plan/rank_report.h"

namespace trireme::commands {

/// One for each of `names`, in their order. Throws io, which names the hosts that did not answer and quotes
/// what the backend said.
std::vector<Host> gather_hosts(const std::vector<std::string>& names, const backends::Backend& backend,
                               const std::vector<std::string>& program,
                               const std::vector<std::string>& exported);

/// What a host tells of itself: what was read from `files`, and the settings of libraries.
plan::HostReport report_of(const topology::SysFiles& files);

/// `trireme report-host`: the other side of it.
int report_host(const Arguments& arguments);

}  // namespace trireme::commands
