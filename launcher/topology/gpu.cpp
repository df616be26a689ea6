#include "launcher/topology/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <sstream>
#include <utility>

namespace trireme::topology {
namespace {

// Display and 3D controllers of NVIDIA; of AMD what calls itself an accelerator.
std::string vendor_of(const std::string& vendor, const std::string& device_class) {
  const auto is = [&](std::initializer_list<const char*> classes) {
    return std::any_of(classes.begin(), classes.end(),
                       [&](const char* c) { return device_class.starts_with(c); });
  };
  if (vendor == "0x10de" && is({"0x0302", "0x0300"})) return "nvidia";
  if (vendor == "0x1002" && is({"0x1200", "0x0380"})) return "amd";
  return "";
}

std::string amd_name(const std::string& device_id) {
  static constexpr std::array<std::pair<const char*, const char*>, 9> kNames{{{"0x738c", "MI100"},
                                                                              {"0x7408", "MI250X"},
                                                                              {"0x740c", "MI250X"},
                                                                              {"0x740f", "MI210"},
                                                                              {"0x74a0", "MI300A"},
                                                                              {"0x74a1", "MI300X"},
                                                                              {"0x74a5", "MI325X"},
                                                                              {"0x75a0", "MI350X"},
                                                                              {"0x75a3", "MI355X"}}};
  for (const auto& [id, name] : kNames)
    if (device_id == id) return name;
  return "";
}

// "GPU UUID: \t GPU-1234" in the text of `information` -> "GPU-1234"
std::string field(const std::string& information, const std::string& name) {
  std::istringstream lines(information);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    const auto at = line.find_first_not_of(" \t", name.size() + 1);
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

// Bus ids of the GPUs of AMD's driver, in its order, which is HIP's. Those of other containers cannot be
// read.
std::vector<std::string> kfd_order(const SysFiles& files) {
  const std::string folder = "sys/class/kfd/kfd/topology/nodes";
  std::vector<int> nodes;
  for (const auto& name : files.entries(folder)) nodes.push_back(std::atoi(name.c_str()));
  std::sort(nodes.begin(), nodes.end());
  std::vector<std::string> bus_ids;
  for (const int node : nodes) {
    std::istringstream properties(files.text(fmt::format("{}/{}/properties", folder, node)).value_or(""));
    std::string name;
    uint64_t value = 0, simds = 0, location = 0, domain = 0;
    while (properties >> name >> value) {
      if (name == "simd_count") simds = value;
      if (name == "location_id") location = value;
      if (name == "domain") domain = value;
    }
    const auto bus_id = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, location >> 8 & 0xff,
                                    location >> 3 & 0x1f, location & 0x7);
    // In its compute partitions a GPU is several nodes.
    if (simds > 0) bus_ids.push_back(bus_id);
  }
  return bus_ids;
}

// PCI ids sort as text: 0000:0c before 0000:15. Domains of more than four digits come later.
bool bus_less(const Gpu& a, const Gpu& b) {
  return std::pair(a.bus_id.size(), a.bus_id) < std::pair(b.bus_id.size(), b.bus_id);
}

}  // namespace

std::vector<Gpu> find_gpus(const SysFiles& files) {
  std::vector<Gpu> gpus;
  const std::string devices = "sys/bus/pci/devices/", own = "proc/driver/nvidia/gpus/";
  // A container sees the whole machine's /sys, but only its own GPUs here.
  const bool has_own = files.exists("proc/driver/nvidia/gpus");
  for (const auto& bus_id : files.entries("sys/bus/pci/devices")) {
    const auto device = devices + bus_id;
    const auto vendor =
        vendor_of(files.line(device + "/vendor").value_or(""), files.line(device + "/class").value_or(""));
    if (vendor.empty()) continue;
    if (vendor == "nvidia" && has_own && !files.exists(own + bus_id)) continue;
    Gpu& gpu = gpus.emplace_back();
    gpu.bus_id = bus_id;
    gpu.vendor = vendor;
    gpu.place = find_place(files, device);
    const auto information = files.text(own + bus_id + "/information").value_or("");
    gpu.uuid = field(information, "GPU UUID");
    gpu.name =
        vendor == "amd" ? amd_name(files.line(device + "/device").value_or("")) : field(information, "Model");
  }
  std::sort(gpus.begin(), gpus.end(), bus_less);
  if (!files.exists("sys/class/kfd/kfd/topology/nodes")) return gpus;
  std::vector<Gpu> ordered;
  for (const auto& gpu : gpus)
    if (gpu.vendor != "amd") ordered.push_back(gpu);
  for (const auto& bus_id : kfd_order(files))
    for (const auto& gpu : gpus)
      if (gpu.vendor == "amd" && gpu.bus_id == bus_id) ordered.push_back(gpu);
  return ordered;
}

namespace {

// One list of devices, "0,2" or UUIDs, applied to what is there.
std::vector<Gpu> chosen(const std::vector<Gpu>& gpus, const std::string& list) {
  std::vector<Gpu> visible;
  std::istringstream in(list);
  std::string entry;
  while (std::getline(in, entry, ',')) {
    int index = -1;
    const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    const bool is_number = error == std::errc{} && stop == entry.data() + entry.size();
    // The runtime ignores what follows the first device that does not exist.
    if (is_number && (index < 0 || index >= static_cast<int>(gpus.size()))) break;
    if (is_number) {
      visible.push_back(gpus[index]);
      continue;
    }
    // A beginning of the UUID is enough.
    const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) {
      return !entry.empty() && gpu.uuid.starts_with(entry);
    });
    if (found != gpus.end())
      visible.push_back(*found);
    else if (visible.size() < gpus.size())
      visible.push_back(gpus.size() == 1 ? gpus[0] : Gpu{});  // which one it is, /proc does not say
  }
  return visible;
}

}  // namespace

std::vector<Gpu> visible_gpus(std::vector<Gpu> gpus, const Settings& settings) {
  const auto apply = [&](const char* name) {
    const auto list = settings.find(name);
    if (list) gpus = chosen(gpus, *list);
    return list.has_value();
  };
  if (!gpus.empty() && gpus[0].vendor == "amd") {
    apply("ROCR_VISIBLE_DEVICES");  // below HIP, which counts what this one has left
    if (apply("HIP_VISIBLE_DEVICES")) return gpus;
  }
  apply("CUDA_VISIBLE_DEVICES");
  return gpus;
}

}  // namespace trireme::topology
