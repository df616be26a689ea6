// One host as the doctor sees it: the files that describe it, and what a program on it has tried.
#pragma once

#include <optional>
#include <string>

#include "launcher/doctor/probe.h"
#include "launcher/topology/machine.h"
#include "launcher/topology/settings.h"
#include "launcher/topology/sys_files.h"

namespace trireme::doctor {

struct Patient {
  std::string host;
  topology::SysFiles files;
  topology::Machine machine;
  topology::Settings settings;
  std::optional<Probe> probe;  // not of a recorded machine

  /// Reads the machine from the files.
  static Patient from(std::string host, topology::SysFiles files) {
    auto machine = topology::discover(files);
    return {std::move(host), std::move(files), std::move(machine), {}, std::nullopt};
  }
};

/// Reads, so that they are recorded, the files that checks look at beyond those of topology::discover.
void read_for_checks(const topology::SysFiles& files);

}  // namespace trireme::doctor
