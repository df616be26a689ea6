// The environment variables that a rank needs for its place in the machine, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/topology/hca_choice.h"
#include "launcher/topology/machine.h"
#include "launcher/topology/settings.h"

namespace trireme::topology {

struct Variable {
  std::string name, value, why;
};

/// How the job spreads, as far as a host's variables depend on it.
struct JobShape {
  int num_hosts = 1;
  bool use_rdma = true;  // false: some host has no usable port, so that none may use one
  uint32_t first_host =
      0;  // IPv4 address, host byte order: the interface that leads there is used; 0: unknown
};

/// Those that all ranks of a host have in common. What `user` has is left alone. GPUs decide what is needed:
/// without them there is no NCCL.
std::vector<Variable> host_variables(const Machine& machine, const HcaChoice& choice, const Settings& user,
                                     const JobShape& job);

/// Those of a rank whose nearest port is `port`.
std::vector<Variable> rank_variables(const Machine& machine, std::optional<PortRef> port,
                                     const Settings& user, const JobShape& job);

/// The index of the address that NCCL takes by itself on an Ethernet port (2.21 and later): the first of
/// RoCE v2 with an IPv4 address, else the first with an IPv4 address, else of v2 with an IPv6 one that leads
/// to other hosts. Nothing on InfiniBand, where no index is read.
std::optional<int> gid_index(const HcaPort& port);

}  // namespace trireme::topology
