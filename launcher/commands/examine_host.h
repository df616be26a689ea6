// The doctor's talk with the hosts of a job, both sides of it.
#pragma once

#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/commands/where.h"
#include "launcher/doctor/collective.h"
#include "launcher/doctor/link.h"
#include "launcher/doctor/patient.h"

namespace trireme::commands {

struct Examined {
  std::vector<doctor::Patient> patients;
  std::vector<int64_t> clock_skew_ns;  // of each
  std::vector<doctor::Link> links;     // of every pair
};

/// Looks at all hosts at the same time, then lets every pair of them try its connection, as many pairs at a
/// time as no host is in two. Without other hosts: at this machine, in this process. Throws io, which names
/// the hosts that do not answer.
Examined examine(const Where& where, doctor::ProbeRequest request, bool with_links);

/// One all-reduce of all hosts, one rank each, by the backend of the run; it is ended when it takes too long.
doctor::Collective try_collective(const Where& where);

/// Every pair of `count` things once, in rounds in which each thing is in one pair at most.
std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int count);

/// `trireme examine-host`
int examine_host(const Arguments& arguments);

}  // namespace trireme::commands
