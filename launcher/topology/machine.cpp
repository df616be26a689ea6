#include "launcher/topology/machine.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "launcher/topology/cpu_list.h"
#include "runtime/base/error.h"

namespace trireme::topology {
namespace {

const char* const kHostName = "proc/sys/kernel/hostname";
const char* const kStatus = "proc/self/status";
const char* const kOnline = "sys/devices/system/cpu/online";

// "Cpus_allowed_list:\t0-31" of /proc/self/status
std::optional<std::vector<int>> allowed_list(const SysFiles& files, const std::string& name) {
  std::istringstream lines(files.text(kStatus).value_or(""));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":\t")) return parse_cpu_list(line.substr(name.size() + 2));
  return std::nullopt;
}

std::vector<int> both(std::vector<int> a, const std::optional<std::vector<int>>& b) {
  if (b) std::erase_if(a, [&](int value) { return std::find(b->begin(), b->end(), value) == b->end(); });
  return a;
}

std::optional<std::vector<int>> find_online(const SysFiles& files) {
  if (const auto text = files.line(kOnline)) return parse_cpu_list(*text);
  std::vector<int> online;
  for (const auto& name : files.entries("sys/devices/system/cpu"))
    if (name.starts_with("cpu") && name.find_first_not_of("0123456789", 3) == std::string::npos &&
        name.size() > 3 && files.number("sys/devices/system/cpu/" + name + "/online", 1) != 0)
      online.push_back(std::atoi(name.c_str() + 3));
  return online.empty() ? std::nullopt : std::optional(online);
}

// What Slurm or a container grants is the mask and the cpuset of this process.
std::vector<int> find_allowed(const SysFiles& files) {
  const auto online = find_online(files);
  if (const auto mask = allowed_list(files, "Cpus_allowed_list")) return both(*mask, online);
  for (const char* cpuset :
       {"sys/fs/cgroup/cpuset.cpus.effective", "sys/fs/cgroup/cpuset/cpuset.effective_cpus",
        "sys/fs/cgroup/cpuset/cpuset.cpus"})
    if (const auto text = files.line(cpuset); text && !text->empty())
      return both(parse_cpu_list(*text), online);
  return online.value_or(std::vector<int>{});
}

std::vector<MemoryNode> find_memory_nodes(const SysFiles& files) {
  std::vector<MemoryNode> nodes;
  const auto allowed = allowed_list(files, "Mems_allowed_list");
  const std::string folder = "sys/devices/system/node";
  for (const auto& name : files.entries(folder)) {
    const auto cpus = name.starts_with("node") ? files.line(folder + "/" + name + "/cpulist") : std::nullopt;
    if (!cpus || cpus->empty()) continue;
    const int number = std::atoi(name.c_str() + 4);
    nodes.push_back(
        {.number = number,
         .cpus = parse_cpu_list(*cpus),
         .may_be_used = !allowed || std::find(allowed->begin(), allowed->end(), number) != allowed->end()});
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return nodes;
}

std::vector<Core> find_cores(const SysFiles& files, const std::vector<MemoryNode>& nodes,
                             const std::vector<int>& allowed) {
  const std::set<int> usable(allowed.begin(), allowed.end());
  std::set<int> taken;
  std::vector<Core> cores;
  for (const int cpu : usable) {
    if (taken.contains(cpu)) continue;
    const auto topology = fmt::format("sys/devices/system/cpu/cpu{}/topology/", cpu);
    auto siblings = files.line(topology + "core_cpus_list");
    if (!siblings) siblings = files.line(topology + "thread_siblings_list");
    Core core;
    // A machine that does not tell its cores has one CPU per core.
    for (const int sibling : siblings ? parse_cpu_list(*siblings) : std::vector<int>{cpu})
      if (usable.contains(sibling) && taken.insert(sibling).second) core.cpus.push_back(sibling);
    if (core.cpus.empty()) core.cpus.push_back(cpu);
    // Some firmware puts all CPUs on every node, which says nothing.
    int claims = 0;
    for (const auto& node : nodes) {
      if (std::find(node.cpus.begin(), node.cpus.end(), cpu) == node.cpus.end()) continue;
      core.memory_node = ++claims == 1 ? node.number : -1;
    }
    cores.push_back(std::move(core));
  }
  std::stable_sort(cores.begin(), cores.end(),
                   [](const Core& a, const Core& b) { return a.memory_node < b.memory_node; });
  return cores;
}

// The container's share of CPU time (docker --cpus=2), which the affinity mask does not show.
int find_cpu_limit(const SysFiles& files) {
  const std::string cgroup = "sys/fs/cgroup/";
  std::string text = files.line(cgroup + "cpu.max").value_or("");
  if (text.empty())  // cgroups of version 1
    text = files.line(cgroup + "cpu/cpu.cfs_quota_us").value_or("") + " " +
           files.line(cgroup + "cpu/cpu.cfs_period_us").value_or("");
  double quota = 0, period = 0;
  std::istringstream(text) >> quota >> period;  // "max 100000" leaves 0, as does "-1 100000" below
  return quota > 0 && period > 0 ? static_cast<int>(std::ceil(quota / period)) : 0;
}

}  // namespace

int Machine::num_cpus() const {
  int count = 0;
  for (const auto& core : cores) count += static_cast<int>(core.cpus.size());
  return count;
}

bool Machine::may_use_memory_of(int node) const {
  return std::any_of(memory_nodes.begin(), memory_nodes.end(),
                     [&](const MemoryNode& n) { return n.number == node && n.may_be_used; });
}

std::vector<int> allowed_cpus() {
  // Room for any kernel's mask: it refuses one that is smaller than its own.
  std::array<cpu_set_t, 16> mask{};
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(mask), mask.data()) != 0) return {0};
  for (int cpu = 0; cpu < static_cast<int>(8 * sizeof(mask)); ++cpu)
    if (CPU_ISSET_S(cpu, sizeof(mask), mask.data())) cpus.push_back(cpu);
  return cpus;
}

Machine discover(const SysFiles& files, const std::optional<std::vector<int>>& allowed) {
  Machine machine;
  machine.host = files.line(kHostName).value_or("localhost");
  machine.memory_nodes = find_memory_nodes(files);
  auto cpus = allowed ? *allowed : find_allowed(files);
  if (cpus.empty() && files.is_this_machine()) cpus = allowed_cpus();
  machine.cores = find_cores(files, machine.memory_nodes, cpus);
  machine.gpus = find_gpus(files);
  machine.hcas = find_hcas(files);
  machine.interfaces = find_interfaces(files);
  machine.routes = find_routes(files);
  machine.cpu_limit = find_cpu_limit(files);
  return machine;
}

}  // namespace trireme::topology
