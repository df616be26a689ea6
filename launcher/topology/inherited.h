// What the user's environment, or a file of NCCL's, already sets, and what that means here: settings that
// are no longer read, that belong to another program, that cost speed or lead to a hang.
#pragma once

#include <string>
#include <vector>

#include "launcher/topology/hca_choice.h"
#include "launcher/topology/machine.h"
#include "launcher/topology/settings.h"

namespace trireme::topology {

struct Remark {
  enum class Kind {
    wrong,    // will fail, hang, or do something else than is written
    costly,   // works, slower than need be
    useless,  // nothing reads it here
  };
  Kind kind = Kind::useless;
  std::string name, value, source, text;
};
const char* to_string(Remark::Kind kind);

/// The wrong ones first. Settings that are fine get no remark.
std::vector<Remark> remarks(const Settings& user, const Machine& machine, const HcaChoice& choice);

}  // namespace trireme::topology
