// Which ports of a host's HCAs carry the traffic between GPUs, and why the others do not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/topology/machine.h"

namespace trireme::topology {

/// A port of one of Machine::hcas.
struct PortRef {
  size_t hca = 0, port = 0;  // indices
  bool operator==(const PortRef&) const = default;
};

struct HcaChoice {
  struct Dropped {
    PortRef port;
    std::string reason;
  };
  std::vector<PortRef> used;  // in the order of the machine
  std::vector<Dropped> dropped;
  std::vector<std::string> warnings;
};

/// "mlx5_0:1"
std::string port_name(const Machine& machine, PortRef port);

/// The rules, in this order; each looks only at what the earlier ones left:
///  1. what NCCL_IB_HCA admits, if the user has set it (`asked`); then rules 4 to 7 are not asked
///  2. a device file in this container, link and port up, a link layer that NCCL speaks
///  3. on Ethernet, an address with which RoCE can reach another host
///  4. a virtual function only where no physical one is left
///  5. of InfiniBand and Ethernet, which NCCL does not mix, the one nearer to the GPUs
///  6. no Ethernet port that carries the default route, unless there is no other
///  7. where every GPU has a port on its own PCI switches, only such ports (others are for storage);
///     no port slower than half of the fastest
HcaChoice choose_hcas(const Machine& machine, const std::optional<std::string>& asked);

/// For each place (of a rank) the nearest port, among those the least used so far. Nothing where no port is
/// used.
std::vector<std::optional<PortRef>> nearest_ports(const Machine& machine, const HcaChoice& choice,
                                                  const std::vector<Place>& places);
Separation separation_of(const Machine& machine, const Place& place, PortRef port);

/// What hosts must have in common, since NCCL pairs their ports one by one.
struct HostPorts {
  std::string host, link_layer;
  std::vector<double> gbits;  // of each port that is used
};
HostPorts host_ports(const Machine& machine, const HcaChoice& choice);
/// Sentences that name the hosts which differ from most others; none if all agree.
std::vector<std::string> differences(const std::vector<HostPorts>& hosts);

}  // namespace trireme::topology
