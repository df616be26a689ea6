#include "trainer/costs/machine.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "runtime/base/error.h"

namespace trireme::costs {
namespace {

constexpr double kMiB = 1024.0 * 1024, kT = 1e12, kG = 1e9;

// Memory as nvidia-smi or rocm-smi shows it; rates and products from the makers' data sheets, dense; the
// network of the maker's own server (DGX, HGX: one port per GPU), or one 100 Gbit/s port for four GPUs of a
// workstation. name, memory, bf16, fp32, memory/s, fabric/s, network/s, host/s.
const std::vector<Device>& catalogue() {
  static const std::vector<Device> devices{
      {"A100-40GB", 40960 * kMiB, 312 * kT, 19.5 * kT, 1555 * kG, 300 * kG, 25 * kG, 25 * kG, false,
       "NVIDIA A100 data sheet; DGX A100: 8 ports of 200 Gbit/s"},
      {"A100-80GB", 81920 * kMiB, 312 * kT, 19.5 * kT, 2039 * kG, 300 * kG, 25 * kG, 25 * kG, false,
       "NVIDIA A100 data sheet; DGX A100: 8 ports of 200 Gbit/s"},
      {"A800", 81920 * kMiB, 312 * kT, 19.5 * kT, 2039 * kG, 200 * kG, 25 * kG, 25 * kG, false,
       "NVIDIA A800 data sheet; 8 ports of 200 Gbit/s"},
      {"H100", 81559 * kMiB, 989.4 * kT, 66.9 * kT, 3350 * kG, 450 * kG, 50 * kG, 55 * kG, false,
       "NVIDIA H100 SXM data sheet; DGX H100: 8 ports of 400 Gbit/s"},
      {"H100-96GB", 97871 * kMiB, 989.4 * kT, 66.9 * kT, 2400 * kG, 450 * kG, 50 * kG, 55 * kG, false,
       "torchtitan's benchmark page: H100 with HBM2e, 500 W; 400 Gbit/s per GPU"},
      {"H800", 81559 * kMiB, 989.4 * kT, 66.9 * kT, 3350 * kG, 200 * kG, 50 * kG, 55 * kG, false,
       "NVIDIA H800 data sheet; 8 ports of 400 Gbit/s"},
      {"GH200", 97871 * kMiB, 989.4 * kT, 66.9 * kT, 4000 * kG, 450 * kG, 25 * kG, 400 * kG, false,
       "NVIDIA GH200 data sheet; 200 Gbit/s per GPU"},
      {"H200", 143771 * kMiB, 989.4 * kT, 66.9 * kT, 4800 * kG, 450 * kG, 50 * kG, 55 * kG, false,
       "NVIDIA H200 data sheet; 8 ports of 400 Gbit/s"},
      {"H20", 97871 * kMiB, 148 * kT, 44 * kT, 4000 * kG, 450 * kG, 50 * kG, 55 * kG, false,
       "NVIDIA H20 data sheet; 8 ports of 400 Gbit/s"},
      {"B200", 183359 * kMiB, 2250 * kT, 75 * kT, 8000 * kG, 900 * kG, 50 * kG, 55 * kG, false,
       "NVIDIA B200 data sheet; 8 ports of 400 Gbit/s"},
      {"MI250X", 65520 * kMiB, 191.5 * kT, 23.9 * kT, 1638 * kG, 150 * kG, 12.5 * kG, 25 * kG, false,
       "AMD MI250X data sheet, one of its two dies"},
      {"MI300X", 196288 * kMiB, 1307.4 * kT, 163.4 * kT, 5300 * kG, 448 * kG, 50 * kG, 55 * kG, false,
       "AMD MI300X data sheet; 8 ports of 400 Gbit/s"},
      {"L40S", 46068 * kMiB, 362 * kT, 91.6 * kT, 864 * kG, 25 * kG, 6.25 * kG, 25 * kG, false,
       "NVIDIA L40S data sheet; PCIe 4 between GPUs"},
      {"3090", 24576 * kMiB, 71 * kT, 35.6 * kT, 936 * kG, 12.5 * kG, 3.125 * kG, 12.5 * kG, false,
       "NVIDIA Ampere GA102 white paper; PCIe 4 shared between GPUs"},
      {"4090", 24564 * kMiB, 165.2 * kT, 82.6 * kT, 1008 * kG, 12.5 * kG, 3.125 * kG, 12.5 * kG, false,
       "NVIDIA Ada white paper; PCIe 4 shared between GPUs"},
  };
  return devices;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

const Device* by_name(const std::string& text) {
  const std::string name = upper(text);
  for (const Device& device : catalogue())
    if (upper(device.name) == name) return &device;
  // What people write for the same.
  static constexpr std::array<std::array<const char*, 2>, 7> kAlso{{{"A100", "A100-80GB"},
                                                                    {"H100-80GB", "H100"},
                                                                    {"H200-141GB", "H200"},
                                                                    {"H20-96GB", "H20"},
                                                                    {"RTX3090", "3090"},
                                                                    {"RTX4090", "4090"},
                                                                    {"MI300", "MI300X"}}};
  for (const auto& [other, known] : kAlso)
    if (name == other) return by_name(known);
  return nullptr;
}

[[noreturn]] void unknown(const std::string& text) {
  fail(ErrorCode::invalid_config,
       "--machine {}: write it like 8xH100, 4x3090 or 16x8xA100-80GB (nodes x GPUs x kind); kinds that are "
       "known: {}",
       text, fmt::join(device_names(), ", "));
}

}  // namespace

std::string Machine::text() const {
  const std::string one = fmt::format("{} x {}", devices_per_node, device.name);
  return nodes == 1 ? one : fmt::format("{} nodes of {}", nodes, one);
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const Device& device : catalogue()) names.push_back(device.name);
  return names;
}

const Device* find_device(const std::string& driver_name) {
  const std::string name = upper(driver_name);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("A100")) return by_name(has("40GB") ? "A100-40GB" : "A100-80GB");
  const Device* best = nullptr;
  for (const Device& device : catalogue())
    if (has(upper(device.name).c_str()) && (!best || device.name.size() > best->name.size())) best = &device;
  return best;
}

Machine parse_machine(const std::string& text) {
  std::vector<int64_t> counts;
  std::string rest = text;
  while (counts.size() < 2) {
    const size_t x = rest.find_first_of("xX");
    int64_t count = 0;
    const char* end = rest.data() + std::min(x, rest.size());
    const auto [stopped, error] = std::from_chars(rest.data(), end, count);
    if (x == std::string::npos || error != std::errc() || stopped != end) break;
    if (count < 1 || count > 1000000) unknown(text);
    counts.push_back(count);
    rest = rest.substr(x + 1);
  }
  const Device* device = by_name(rest);
  if (!device) unknown(text);
  Machine machine{*device};
  if (!counts.empty()) machine.devices_per_node = counts.back();
  if (counts.size() == 2) machine.nodes = counts.front();
  return machine;
}

Machine cpu_machine(int64_t ranks, double memory_bytes, double bf16_flops, double fp32_flops,
                    double memory_rate) {
  Device device{"CPU", memory_bytes, bf16_flops, fp32_flops, memory_rate};
  device.fabric_rate = device.network_rate = memory_rate;  // messages go through memory
  device.host_rate = memory_rate;
  device.is_cpu = true;
  device.source = "measured by trireme bench train-step: product_gflops, memory_gb_per_second";
  return Machine{device, ranks, 1};
}

}  // namespace trireme::costs
