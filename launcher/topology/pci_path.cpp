#include "launcher/topology/pci_path.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "launcher/topology/cpu_list.h"

namespace trireme::topology {
namespace {

bool same_memory_node(const Place& a, const Place& b, size_t num_memory_nodes) {
  if (num_memory_nodes <= 1) return true;
  if (a.memory_node >= 0 && b.memory_node >= 0) return a.memory_node == b.memory_node;
  // Virtual machines often hide the node and still name the CPUs.
  return !a.cpus.empty() && a.cpus == b.cpus;
}

}  // namespace

Place find_place(const SysFiles& files, const std::string& device) {
  Place place;
  std::istringstream path(files.real_path(device));
  // What stands before the root complex, the bus of a hypervisor for instance, is no part of the way.
  for (std::string part; std::getline(path, part, '/');)
    if (!place.path.empty() || part.starts_with("pci")) place.path.push_back(part);
  place.memory_node = files.number(device + "/numa_node", -1);
  place.cpus = parse_cpu_list(files.line(device + "/local_cpulist").value_or(""));
  return place;
}

const char* to_string(Distance distance) {
  static constexpr std::array<const char*, 5> kNames{"PIX", "PXB", "PHB", "NODE", "SYS"};
  return kNames.at(static_cast<size_t>(distance));
}

Separation separation(const Place& a, const Place& b, size_t num_memory_nodes) {
  const auto end = std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end()).first;
  const auto common = end - a.path.begin();
  const auto rest_a = static_cast<int>(a.path.size() - common),
             rest_b = static_cast<int>(b.path.size() - common);
  const int hops = std::max(0, rest_a + rest_b - 2);
  if (common == 0) return {same_memory_node(a, b, num_memory_nodes) ? Distance::node : Distance::sys, hops};
  if (common == 1) return {Distance::phb, hops};
  // Below what both share, a switch has one more port of its own for each of them.
  return {rest_a <= 2 && rest_b <= 2 ? Distance::pix : Distance::pxb, hops};
}

}  // namespace trireme::topology
