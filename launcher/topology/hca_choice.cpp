#include "launcher/topology/hca_choice.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "launcher/topology/name_list.h"
#include "runtime/base/error.h"

namespace trireme::topology {
namespace {

// Takes ports out of HcaChoice::used, one rule after another.
class Sieve {
 public:
  explicit Sieve(const Machine& machine) : machine_(machine) {
    for (size_t hca = 0; hca < machine.hcas.size(); ++hca)
      for (size_t port = 0; port < machine.hcas[hca].ports.size(); ++port) choice.used.push_back({hca, port});
  }

  const Hca& hca(PortRef ref) const { return machine_.hcas[ref.hca]; }
  const HcaPort& port(PortRef ref) const { return hca(ref).ports[ref.port]; }

  using Rule = std::function<std::string(PortRef)>;  // the reason to drop it, or ""
  void drop(const Rule& rule) {
    const auto before = choice.used;  // a rule may look at all that are left
    std::vector<PortRef> kept;
    for (const auto ref : before) {
      const auto reason = rule(ref);
      if (reason.empty())
        kept.push_back(ref);
      else
        choice.dropped.push_back({ref, reason});
    }
    choice.used = kept;
  }
  // The same, but nothing is dropped if that left none.
  void drop_unless_all(const Rule& rule) {
    if (std::any_of(choice.used.begin(), choice.used.end(), [&](PortRef ref) { return rule(ref).empty(); }))
      drop(rule);
  }

  Separation nearest(size_t gpu, const std::string& link_layer = "") const {
    Separation best{Distance::sys, 1 << 20};
    for (const auto ref : choice.used)
      if (link_layer.empty() || port(ref).link_layer == link_layer)
        best = std::min(best, separation_of(machine_, machine_.gpus[gpu].place, ref));
    return best;
  }

  HcaChoice choice;

 private:
  const Machine& machine_;
};

void drop_what_cannot_work(Sieve& sieve) {
  sieve.drop([&](PortRef ref) -> std::string {
    const HcaPort& port = sieve.port(ref);
    if (!sieve.hca(ref).has_device_file)
      return "its /dev/infiniband/uverbs* is not in this container; start it with --device=/dev/infiniband";
    if (!port.is_up()) return fmt::format("is down (state {}, link {})", port.state, port.physical_state);
    if (port.link_layer != "InfiniBand" && port.link_layer != "Ethernet")
      return fmt::format("has the link layer '{}', which NCCL reaches only through a plugin",
                         port.link_layer);
    return "";
  });
  sieve.drop([&](PortRef ref) -> std::string {
    const HcaPort& port = sieve.port(ref);
    if (port.link_layer != "Ethernet") return "";
    const bool has_address = std::any_of(port.gids.begin(), port.gids.end(), [](const Gid& gid) {
      return gid.roce_version > 0 && !gid.is_link_local();
    });
    return has_address
               ? ""
               : "has no address that leads to other hosts: its network interface has none, or is not in "
                 "this container";
  });
}

void drop_virtual_functions(Sieve& sieve) {
  sieve.drop_unless_all([&](PortRef ref) -> std::string {
    return sieve.hca(ref).is_virtual_function ? "is a virtual function, and a physical one is there" : "";
  });
}

void drop_the_other_link_layer(const Machine& machine, Sieve& sieve) {
  struct Merit {
    std::vector<Separation> gpus;  // nearest port of each GPU
    double gbits = 0;
  };
  std::map<std::string, Merit> layers;
  for (const auto ref : sieve.choice.used) layers[sieve.port(ref).link_layer].gbits += sieve.port(ref).gbits;
  if (layers.size() < 2) return;
  for (auto& [layer, merit] : layers)
    for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) merit.gpus.push_back(sieve.nearest(gpu, layer));
  // More GPUs that are nearer to it; then more bandwidth.
  int lead = 0;
  const Merit &infiniband = layers["InfiniBand"], &ethernet = layers["Ethernet"];
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const auto a = infiniband.gpus[gpu].distance, b = ethernet.gpus[gpu].distance;
    lead += a < b ? 1 : b < a ? -1 : 0;
  }
  const bool take_infiniband = lead != 0 ? lead > 0 : infiniband.gbits >= ethernet.gbits;
  const std::string kept = take_infiniband ? "InfiniBand" : "Ethernet";
  sieve.drop([&](PortRef ref) -> std::string {
    if (sieve.port(ref).link_layer == kept) return "";
    return fmt::format("is {}; NCCL does not mix link layers, and {} is {}", sieve.port(ref).link_layer, kept,
                       lead ? "nearer to the GPUs" : "at least as fast");
  });
}

void drop_the_default_route(const Machine& machine, Sieve& sieve) {
  const auto default_route = interface_towards(machine.routes);
  if (default_route.empty()) return;
  sieve.drop_unless_all([&](PortRef ref) -> std::string {
    const HcaPort& port = sieve.port(ref);
    if (port.link_layer != "Ethernet" || !carries(machine.interfaces, port.interface, default_route))
      return "";
    return fmt::format("{} carries the default route: a network for management", port.interface);
  });
}

void drop_storage(const Machine& machine, Sieve& sieve) {
  const auto is_near = [](Separation s) { return s.distance <= Distance::pxb; };
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
    if (!is_near(sieve.nearest(gpu))) return;
  if (machine.gpus.empty()) return;
  sieve.drop([&](PortRef ref) -> std::string {
    for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
      if (is_near(separation_of(machine, machine.gpus[gpu].place, ref))) return "";
    return "shares no PCI switch with a GPU, and each GPU has a port that does: for storage, or other GPUs";
  });
}

void drop_slow(Sieve& sieve) {
  double best = 0;
  for (const auto ref : sieve.choice.used) best = std::max(best, sieve.port(ref).gbits);
  sieve.drop([&](PortRef ref) -> std::string {
    const double gbits = sieve.port(ref).gbits;
    return 2 * gbits >= best ? "" : fmt::format("has {} Gb/s, less than half of {}", gbits, best);
  });
}

void warn(const Machine& machine, Sieve& sieve) {
  const auto& used = sieve.choice.used;
  auto& warnings = sieve.choice.warnings;
  if (!machine.hcas.empty() && used.empty())
    warnings.emplace_back("no port of an HCA can be used: NCCL will use sockets");
  const auto by_speed = [&](PortRef a, PortRef b) { return sieve.port(a).gbits < sieve.port(b).gbits; };
  if (const auto [slow, fast] = std::minmax_element(used.begin(), used.end(), by_speed);
      slow != used.end() && sieve.port(*slow).gbits != sieve.port(*fast).gbits)
    warnings.push_back(fmt::format("{} has {} Gb/s and {} has {} Gb/s: NCCL goes at the pace of the slower",
                                   port_name(machine, *slow), sieve.port(*slow).gbits,
                                   port_name(machine, *fast), sieve.port(*fast).gbits));
  std::string far;
  for (size_t gpu = 0; gpu < machine.gpus.size() && !used.empty() && machine.memory_nodes.size() > 1; ++gpu)
    if (sieve.nearest(gpu).distance == Distance::sys)
      far += fmt::format("{}{}", far.empty() ? "" : ", ", gpu);
  if (!far.empty())
    warnings.push_back(
        fmt::format("no port is near GPU {}: what it sends goes from one memory node to another", far));
}

}  // namespace

std::string port_name(const Machine& machine, PortRef port) {
  return fmt::format("{}:{}", machine.hcas[port.hca].name, machine.hcas[port.hca].ports[port.port].number);
}

HcaChoice choose_hcas(const Machine& machine, const std::optional<std::string>& asked) {
  Sieve sieve(machine);
  if (asked) {
    const auto list = NameList::parse(*asked);
    sieve.drop([&](PortRef ref) -> std::string {
      return list.admits(sieve.hca(ref).name, sieve.port(ref).number) ? "" : "is not in your NCCL_IB_HCA";
    });
  }
  drop_what_cannot_work(sieve);
  if (!asked) {
    drop_virtual_functions(sieve);
    drop_the_other_link_layer(machine, sieve);
    drop_the_default_route(machine, sieve);
    drop_storage(machine, sieve);
    drop_slow(sieve);
  }
  warn(machine, sieve);
  return sieve.choice;
}

Separation separation_of(const Machine& machine, const Place& place, PortRef port) {
  return separation(place, machine.hcas.at(port.hca).place, machine.memory_nodes.size());
}

std::vector<std::optional<PortRef>> nearest_ports(const Machine& machine, const HcaChoice& choice,
                                                  const std::vector<Place>& places) {
  std::vector<std::optional<PortRef>> ports(places.size());
  std::vector<int> load(choice.used.size(), 0);
  for (size_t rank = 0; rank < places.size() && !choice.used.empty(); ++rank) {
    const auto cost = [&](size_t i) {
      const auto s = separation_of(machine, places[rank], choice.used[i]);
      return std::tuple(s.distance, load[i], s.hops);
    };
    size_t best = 0;
    for (size_t i = 1; i < choice.used.size(); ++i)
      if (cost(i) < cost(best)) best = i;
    ++load[best];
    ports[rank] = choice.used[best];
  }
  return ports;
}

HostPorts host_ports(const Machine& machine, const HcaChoice& choice) {
  HostPorts ports{.host = machine.host, .link_layer = "", .gbits = {}};
  for (const auto ref : choice.used) {
    const HcaPort& port = machine.hcas[ref.hca].ports[ref.port];
    ports.link_layer = port.link_layer;
    ports.gbits.push_back(port.gbits);
  }
  return ports;
}

std::vector<std::string> differences(const std::vector<HostPorts>& hosts) {
  const auto text = [](const HostPorts& host) {
    if (host.gbits.empty()) return std::string("no usable HCA");
    return fmt::format("{} {} {} of {} Gb/s", host.gbits.size(), host.link_layer,
                       host.gbits.size() == 1 ? "port" : "ports", fmt::join(host.gbits, ", "));
  };
  std::map<std::string, int> count;
  for (const auto& host : hosts) ++count[text(host)];
  if (count.size() < 2) return {};
  const auto usual =
      std::max_element(count.begin(), count.end(), [](auto& a, auto& b) { return a.second < b.second; });
  std::vector<std::string> found;
  for (const auto& host : hosts)
    if (text(host) != usual->first)
      found.push_back(
          fmt::format("{} has {}, {} of {} hosts have {}: NCCL pairs ports one by one and may hang",
                      host.host, text(host), usual->second, hosts.size(), usual->first));
  return found;
}

}  // namespace trireme::topology
