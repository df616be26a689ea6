// Network interfaces and IPv4 routes of a host: which interface leads where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/topology/sys_files.h"

namespace trireme::topology {

struct NetworkInterface {
  std::string name;
  bool is_up = false;
  std::vector<std::string> above;  // what is made of it: a bond, a bridge, a VLAN
};

struct Route {
  std::string interface;
  uint32_t network = 0, mask = 0;  // host byte order; both 0: the default route
  int metric = 0;
};

std::vector<NetworkInterface> find_interfaces(const SysFiles& files);
std::vector<Route> find_routes(const SysFiles& files);

/// The interface through which packets to `address` leave, of the default route for 0; "" if there is none.
std::string interface_towards(const std::vector<Route>& routes, uint32_t address = 0);

/// Whether packets of `upper` pass through `lower`: it is the same, or made of it.
bool carries(const std::vector<NetworkInterface>& interfaces, const std::string& lower,
             const std::string& upper);

}  // namespace trireme::topology
