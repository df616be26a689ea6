#include "launcher/topology/network_interface.h"

#include <bit>
#include <sstream>

namespace trireme::topology {

std::vector<NetworkInterface> find_interfaces(const SysFiles& files) {
  std::vector<NetworkInterface> interfaces;
  for (const auto& name : files.entries("sys/class/net")) {
    const auto folder = "sys/class/net/" + name;
    const auto state = files.line(folder + "/operstate");
    if (!state) continue;  // bonding_masters is a file among the interfaces
    NetworkInterface& interface = interfaces.emplace_back();
    interface.name = name;
    interface.is_up = *state == "up" || *state == "unknown";  // the loopback interface does not know
    for (const auto& entry : files.entries(folder))
      if (entry.starts_with("upper_") && files.exists(folder + "/" + entry))
        interface.above.push_back(entry.substr(6));
  }
  return interfaces;
}

// Iface Destination Gateway Flags RefCnt Use Metric Mask ...: addresses as the machine keeps them in memory.
std::vector<Route> find_routes(const SysFiles& files) {
  std::vector<Route> routes;
  std::istringstream table(files.text("proc/net/route").value_or(""));
  const auto host_order = [](uint32_t value) {
    return std::endian::native == std::endian::little ? __builtin_bswap32(value) : value;
  };
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    Route route;
    std::string unused;
    uint32_t flags = 0;
    constexpr uint32_t kUp = 1, kReject = 0x200;
    fields >> route.interface >> std::hex >> route.network >> unused >> flags >> unused >> unused >>
        std::dec >> route.metric >> std::hex >> route.mask;
    if (!fields || !(flags & kUp) || (flags & kReject)) continue;
    route.network = host_order(route.network);
    route.mask = host_order(route.mask);
    routes.push_back(route);
  }
  return routes;
}

std::string interface_towards(const std::vector<Route>& routes, uint32_t address) {
  const Route* best = nullptr;
  for (const auto& route : routes) {
    if (address == 0 ? route.mask != 0 : (address & route.mask) != route.network) continue;
    if (!best || route.mask > best->mask || (route.mask == best->mask && route.metric < best->metric))
      best = &route;
  }
  return best ? best->interface : "";
}

bool carries(const std::vector<NetworkInterface>& interfaces, const std::string& lower,
             const std::string& upper) {
  if (lower == upper) return true;
  for (const auto& interface : interfaces) {
    if (interface.name != lower) continue;
    for (const auto& above : interface.above)
      if (carries(interfaces, above, upper)) return true;
  }
  return false;
}

}  // namespace trireme::topology
