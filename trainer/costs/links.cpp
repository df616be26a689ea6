#include "trainer/costs/links.h"

#include <algorithm>

namespace trireme::costs {

LinkUse& LinkUse::operator+=(const LinkUse& other) {
  fabric_bytes += other.fabric_bytes;
  network_bytes += other.network_bytes;
  seconds += other.seconds;
  return *this;
}

LinkUse ring(double bytes, RankLine ranks, const Machine& machine, const Constants& constants) {
  if (ranks.size <= 1 || bytes <= 0) return {};
  const double share = constants.of(Constant::link_share), message = constants.of(Constant::message_seconds);
  const int64_t per_node = std::clamp<int64_t>(machine.devices_per_node / ranks.stride, 1, ranks.size),
                nodes = (ranks.size + per_node - 1) / per_node;
  const auto of = [](int64_t n) { return static_cast<double>(n - 1) / static_cast<double>(n); };
  LinkUse use;
  use.fabric_bytes = of(per_node) * bytes;
  use.network_bytes = of(nodes) * bytes / static_cast<double>(per_node);
  use.seconds = std::max(use.fabric_bytes / (machine.device.fabric_rate * share),
                         use.network_bytes / (machine.device.network_rate * share)) +
                message * static_cast<double>(per_node - 1 + nodes - 1);
  return use;
}

LinkUse send(double bytes, int64_t distance, const Machine& machine, const Constants& constants) {
  const double share = constants.of(Constant::link_share);
  LinkUse use;
  const bool crosses = distance >= machine.devices_per_node;
  (crosses ? use.network_bytes : use.fabric_bytes) = bytes;
  use.seconds = bytes / ((crosses ? machine.device.network_rate : machine.device.fabric_rate) * share) +
                constants.of(Constant::message_seconds);
  return use;
}

}  // namespace trireme::costs
