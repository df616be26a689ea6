#include "launcher/topology/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "launcher/topology/cpu_list.h"
#include "runtime/base/error.h"

namespace trireme::topology {
namespace {

namespace fs = std::filesystem;

// The first line of a file of /sys; nothing if it cannot be read, which is usual in containers.
std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

int number(const std::optional<std::string>& text, int otherwise) {
  if (!text) return otherwise;
  int value = otherwise;
  std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

// CPU -> memory node
std::map<int, int> memory_nodes(const fs::path& root) {
  std::map<int, int> node_of;
  const fs::path nodes = root / "sys/devices/system/node";
  for (const auto& name : entries(nodes)) {
    if (!name.starts_with("node")) continue;
    const int node = number(name.substr(4), -1);
    const auto cpus = first_line(nodes / name / "cpulist");
    if (node < 0 || !cpus) continue;
    for (const int cpu : parse_cpu_list(*cpus)) node_of[cpu] = node;
  }
  return node_of;
}

std::vector<Core> find_cores(const fs::path& root, const std::vector<int>& allowed) {
  const auto node_of = memory_nodes(root);
  const std::set<int> usable(allowed.begin(), allowed.end());
  std::set<int> taken;
  std::vector<Core> cores;
  for (const int cpu : usable) {
    if (taken.contains(cpu)) continue;
    const fs::path topology = root / fmt::format("sys/devices/system/cpu/cpu{}/topology", cpu);
    auto siblings = first_line(topology / "core_cpus_list");
    if (!siblings) siblings = first_line(topology / "thread_siblings_list");
    Core core;
    // A machine that does not tell its cores has one CPU per core.
    for (const int sibling : siblings ? parse_cpu_list(*siblings) : std::vector<int>{cpu})
      if (usable.contains(sibling) && taken.insert(sibling).second) core.cpus.push_back(sibling);
    if (core.cpus.empty()) core.cpus.push_back(cpu);
    if (const auto node = node_of.find(cpu); node != node_of.end()) core.memory_node = node->second;
    cores.push_back(std::move(core));
  }
  std::stable_sort(cores.begin(), cores.end(),
                   [](const Core& a, const Core& b) { return a.memory_node < b.memory_node; });
  return cores;
}

// Display and 3D controllers of NVIDIA; of AMD also what calls itself an accelerator.
std::string gpu_vendor(const std::string& vendor, const std::string& device_class) {
  const auto is = [&](std::initializer_list<const char*> classes) {
    return std::any_of(classes.begin(), classes.end(),
                       [&](const char* c) { return device_class.starts_with(c); });
  };
  if (vendor == "0x10de" && is({"0x0302", "0x0300"})) return "nvidia";
  if (vendor == "0x1002" && is({"0x1200", "0x0380"})) return "amd";
  return "";
}

std::vector<Gpu> find_gpus(const fs::path& root) {
  std::vector<Gpu> gpus;
  const fs::path devices = root / "sys/bus/pci/devices";
  // A container sees the whole machine's /sys, but only its own GPUs here.
  const fs::path own = root / "proc/driver/nvidia/gpus";
  const bool has_own = fs::is_directory(own);
  for (const auto& bus_id : entries(devices)) {
    const fs::path device = devices / bus_id;
    const auto vendor =
        gpu_vendor(first_line(device / "vendor").value_or(""), first_line(device / "class").value_or(""));
    if (vendor.empty()) continue;
    if (vendor == "nvidia" && has_own && !fs::exists(own / bus_id)) continue;
    Gpu& gpu = gpus.emplace_back();
    gpu.bus_id = bus_id;
    gpu.vendor = vendor;
    gpu.memory_node = number(first_line(device / "numa_node"), -1);
    gpu.cpus = parse_cpu_list(first_line(device / "local_cpulist").value_or(""));
  }
  return gpus;
}

// The container's share of CPU time (docker --cpus=2), which the affinity mask does not show.
int find_cpu_limit(const fs::path& root) {
  const fs::path cgroup = root / "sys/fs/cgroup";
  std::string text = first_line(cgroup / "cpu.max").value_or("");
  if (text.empty())  // cgroups of version 1
    text = first_line(cgroup / "cpu/cpu.cfs_quota_us").value_or("") + " " +
           first_line(cgroup / "cpu/cpu.cfs_period_us").value_or("");
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

std::vector<int> allowed_cpus() {
  // Room for any kernel's mask: it refuses one that is smaller than its own.
  std::array<cpu_set_t, 16> mask{};
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(mask), mask.data()) != 0) return {0};
  for (int cpu = 0; cpu < static_cast<int>(8 * sizeof(mask)); ++cpu)
    if (CPU_ISSET_S(cpu, sizeof(mask), mask.data())) cpus.push_back(cpu);
  return cpus;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] ? name.data() : "localhost";
}

Machine discover(const std::string& root, const std::vector<int>& allowed) {
  const fs::path base = root.empty() ? "/" : root;
  return {.host = host_name(),
          .cores = find_cores(base, allowed),
          .gpus = find_gpus(base),
          .cpu_limit = find_cpu_limit(base)};
}

std::vector<Gpu> visible_gpus(const std::vector<Gpu>& gpus, const char* visible_devices) {
  if (!visible_devices) return gpus;
  std::vector<Gpu> visible;
  std::istringstream list(visible_devices);
  std::string entry;
  while (std::getline(list, entry, ',')) {
    int index = -1;
    const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    const bool is_number = error == std::errc{} && stop == entry.data() + entry.size();
    // CUDA itself ignores what follows the first device that does not exist.
    if (is_number && (index < 0 || index >= static_cast<int>(gpus.size()))) break;
    if (is_number) {
      visible.push_back(gpus[index]);
    } else if (visible.size() < gpus.size()) {
      visible.push_back(gpus.size() == 1 ? gpus[0] : Gpu{});  // a UUID: which one it is, /sys does not say
    }
  }
  return visible;
}

}  // namespace trireme::topology
