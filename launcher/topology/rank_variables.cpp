#include "launcher/topology/rank_variables.h"

#include <algorithm>
#include <array>

#include "runtime/base/error.h"

namespace trireme::topology {
namespace {

class List {
 public:
  explicit List(const Settings& user) : user_(user) {}
  void add(const std::string& name, const std::string& value, const std::string& why) {
    if (!user_.has(name)) variables.push_back({name, value, why});
  }
  std::vector<Variable> variables;

 private:
  const Settings& user_;
};

bool has_ipv4(const HcaPort& port) {
  return std::any_of(port.gids.begin(), port.gids.end(), [](const Gid& gid) { return gid.is_ipv4(); });
}

bool is_mi300(const Gpu& gpu) {
  static constexpr std::array<const char*, 3> kNames{"MI300A", "MI300X", "MI325X"};
  return std::find(kNames.begin(), kNames.end(), gpu.name) != kNames.end();
}

void add_hcas(const Machine& machine, const HcaChoice& choice, const JobShape& job, List& list) {
  if (choice.used.empty() || !job.use_rdma) {
    if (job.num_hosts > 1)
      list.add("NCCL_IB_DISABLE", "1",
               choice.used.empty() ? "this host has no port that can be used"
                                   : "another host has no port that can be used");
    return;
  }
  std::string names;
  for (const auto ref : choice.used) names += (names.empty() ? "=" : ",") + port_name(machine, ref);
  list.add("NCCL_IB_HCA", names,
           "these ports and no others; without the first '=' NCCL would take names as beginnings");
  const auto is_ipv6_only = [&](PortRef ref) {
    const HcaPort& port = machine.hcas[ref.hca].ports[ref.port];
    return port.link_layer == "Ethernet" && !has_ipv4(port);
  };
  if (std::all_of(choice.used.begin(), choice.used.end(), is_ipv6_only))
    list.add("NCCL_IB_ADDR_FAMILY", "AF_INET6",
             "the ports have IPv6 addresses only, and NCCL looks for IPv4 ones");
}

}  // namespace

std::vector<Variable> host_variables(const Machine& machine, const HcaChoice& choice, const Settings& user,
                                     const JobShape& job) {
  List list(user);
  if (machine.gpus.empty()) return {};
  add_hcas(machine, choice, job, list);
  if (job.num_hosts == 1) {
    const auto is_loopback = [](const NetworkInterface& interface) {
      return interface.name == "lo" && interface.is_up;
    };
    if (std::any_of(machine.interfaces.begin(), machine.interfaces.end(), is_loopback))
      list.add("NCCL_SOCKET_IFNAME", "=lo", "one host: ranks meet without a network");
  } else if (const auto interface = interface_towards(machine.routes, job.first_host); !interface.empty()) {
    list.add("NCCL_SOCKET_IFNAME", "=" + interface,
             job.first_host ? "it leads to the first host; ranks meet there"
                            : "it has the default route; ranks meet there");
  }
  if (std::any_of(machine.gpus.begin(), machine.gpus.end(), is_mi300))
    list.add("HSA_NO_SCRATCH_RECLAIM", "1",
             "on MI300, scratch memory that is given back and taken again makes RCCL's kernels slow");
  return list.variables;
}

std::vector<Variable> rank_variables(const Machine& machine, std::optional<PortRef> port,
                                     const Settings& user, const JobShape& job) {
  List list(user);
  if (port && job.num_hosts > 1 && job.use_rdma)
    list.add("UCX_NET_DEVICES", port_name(machine, *port), "the port that is nearest to this rank, for MPI");
  return list.variables;
}

std::optional<int> gid_index(const HcaPort& port) {
  if (port.link_layer != "Ethernet") return std::nullopt;
  const Gid* best = nullptr;
  const auto rank = [](const Gid& gid) { return gid.is_ipv4() ? gid.roce_version : gid.roce_version - 2; };
  for (const auto& gid : port.gids)
    if (gid.roce_version > 0 && !gid.is_link_local() && (!best || rank(gid) > rank(*best))) best = &gid;
  return best ? std::optional(best->index) : std::nullopt;
}

}  // namespace trireme::topology
