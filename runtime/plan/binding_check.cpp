#include "runtime/plan/binding_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace trireme::plan {
namespace {

std::vector<int> own_cpus() {
  std::array<cpu_set_t, 16> mask{};
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(mask), mask.data()) != 0) return cpus;
  for (int cpu = 0; cpu < static_cast<int>(8 * sizeof(mask)); ++cpu)
    if (CPU_ISSET_S(cpu, sizeof(mask), mask.data())) cpus.push_back(cpu);
  return cpus;
}

// The memory node that this process prefers; -1 if none, -2 if the kernel or the container does not say.
int preferred_node() {
  std::array<unsigned long, 16> nodes{};
  int mode = 0;
  if (::syscall(SYS_get_mempolicy, &mode, nodes.data(), 8 * sizeof(nodes), nullptr, 0) != 0) return -2;
  if (mode != MPOL_PREFERRED) return -1;
  const int bits = 8 * sizeof(unsigned long);
  for (int node = 0; node < static_cast<int>(nodes.size()) * bits; ++node)
    if (nodes[node / bits] >> (node % bits) & 1) return node;
  return -1;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Bus, slot and function in lower case, with a domain of four digits.
std::string canonical(std::string bus_id) {
  for (char& c : bus_id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::count(bus_id.begin(), bus_id.end(), ':') == 1) bus_id = "0000:" + bus_id;
  const auto domain = bus_id.find(':');
  const auto zeros = std::min(bus_id.find_first_not_of('0'), domain);
  if (domain == std::string::npos) return bus_id;
  const auto digits = bus_id.substr(zeros, domain - zeros);
  return fmt::format("{:0>4}{}", digits, bus_id.substr(domain));
}

}  // namespace

std::vector<std::string> binding_differences(const RankPlan& planned) {
  std::vector<std::string> found;
  if (const auto host = host_name(); host != planned.host)
    found.push_back(fmt::format("this rank runs on {}, the plan says {}", host, planned.host));
  if (const auto cpus = own_cpus(); !planned.cpus.empty() && cpus != planned.cpus)
    found.push_back(
        fmt::format("this rank may run on CPUs {}, the plan says {}: the container refuses the binding, or "
                    "another program "
                    "has bound it (mpirun without --bind-to none, srun without --cpu-bind=none)",
                    fmt::join(cpus, ","), fmt::join(planned.cpus, ",")));
  if (const int node = preferred_node(); planned.memory_node >= 0 && node != planned.memory_node)
    found.push_back(
        node == -2
            ? fmt::format(
                  "this rank cannot tell whether it prefers memory node {}, as planned: the container "
                  "forbids get_mempolicy",
                  planned.memory_node)
            : fmt::format("this rank prefers {} memory node, the plan says {}: the container may forbid "
                          "set_mempolicy (docker run --cap-add=SYS_NICE allows it)",
                          node < 0 ? "no" : "another", planned.memory_node));
  return found;
}

bool is_same_device(const std::string& bus_id, const std::string& other) {
  return canonical(bus_id) == canonical(other);
}

}  // namespace trireme::plan
