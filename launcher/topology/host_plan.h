// All that is decided for one host: who runs where, which ports carry traffic, what ranks find in their
// environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/topology/binding.h"
#include "launcher/topology/hca_choice.h"
#include "launcher/topology/inherited.h"
#include "launcher/topology/machine.h"
#include "launcher/topology/rank_variables.h"
#include "launcher/topology/settings.h"

namespace trireme::topology {

struct HostPlan {
  struct Rank {
    Binding binding;
    std::optional<PortRef> port;  // the nearest
    Separation to_port;
    std::vector<Variable> variables;
  };
  HcaChoice choice;
  std::vector<Rank> ranks;          // by local rank
  std::vector<Variable> variables;  // of all of them
  std::vector<Remark> remarks;      // on what the user has set
};

/// Uses the machine's GPUs if it has any. Expects num_ranks > 0 and a machine with cores.
HostPlan plan_host(const Machine& machine, const Settings& user, const JobShape& job, int num_ranks,
                   int threads_per_rank = 0);

/// For people to read: the machine's devices by memory node and PCI switch ...
std::string tree_text(const Machine& machine);
/// ... how far GPUs and ports are from each other ...
std::string matrix_text(const Machine& machine);
/// ... and the plan, with reasons.
std::string plan_text(const Machine& machine, const HostPlan& plan);

}  // namespace trireme::topology
