// The host channel adapters (InfiniBand, RoCE) of a host, and the state of their ports.
#pragma once

#include <string>
#include <vector>

#include "launcher/topology/pci_path.h"
#include "launcher/topology/sys_files.h"

namespace trireme::topology {

/// One of a port's addresses. Empty ones, and those that the container may not read, are left out.
struct Gid {
  int index = 0;
  std::string address;    // "fe80:0000:0000:0000:..."
  int roce_version = 0;   // 1 or 2; 0: InfiniBand
  std::string interface;  // "" if it has none here

  bool is_ipv4() const;        // ::ffff:a.b.c.d
  bool is_link_local() const;  // fe80::, which no router passes on
};

struct HcaPort {
  int number = 1;
  std::string state;           // "ACTIVE", "DOWN"
  std::string physical_state;  // "LinkUp", "Disabled"
  std::string link_layer;      // "InfiniBand" | "Ethernet"
  double gbits = 0;            // 400
  std::vector<Gid> gids;
  std::string interface;  // what ibdev2netdev prints; "" if it has none here

  bool is_up() const { return state == "ACTIVE" && physical_state == "LinkUp"; }
};

struct Hca {
  std::string name;    // "mlx5_0"
  std::string bus_id;  // "0000:18:00.0"
  Place place;
  bool is_virtual_function = false;  // of a physical one that this host sees
  bool has_device_file = true;       // /dev/infiniband/uverbsN: what a process opens
  std::vector<HcaPort> ports;
};

/// By name, mlx5_2 before mlx5_10.
std::vector<Hca> find_hcas(const SysFiles& files);

/// Whether `a` comes before `b`, digits read as numbers.
bool natural_less(const std::string& a, const std::string& b);

}  // namespace trireme::topology
