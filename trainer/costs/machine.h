// A machine as far as a plan goes: how many devices, what each of them can do at best, and what joins them.
// Figures are the makers'; what is reached of them is constants.h's to say. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::costs {

struct Device {
  std::string name;         // "H100"
  double memory_bytes = 0;  // that a program may have
  double bf16_flops = 0;    // dense products a second
  double fp32_flops = 0;
  double memory_rate = 0;   // bytes a second
  double fabric_rate = 0;   // bytes a second each way to the other devices of the node
  double network_rate = 0;  // bytes a second each way of its share of the node's network
  double host_rate = 0;     // bytes a second each way to the host's memory
  bool is_cpu = false;
  std::string source;
};

struct Machine {
  Device device;
  int64_t devices_per_node = 1, nodes = 1;
  int64_t devices() const { return devices_per_node * nodes; }
  double flops(bool fp32) const { return fp32 ? device.fp32_flops : device.bf16_flops; }
  std::string text() const;  // "4 nodes of 8 x H100"
};

/// "8xH100", "4x3090", "2x8xA100-40GB" (nodes x devices); a word for one device alone. Throws invalid_config
/// with the names that are known.
Machine parse_machine(const std::string& text);
/// By what a driver calls it ("NVIDIA H100 80GB HBM3"); null if it is none of those that are known.
const Device* find_device(const std::string& driver_name);
std::vector<std::string> device_names();
/// `ranks` shares of one host, each with these limits (bench's product_gflops and memory_gb_per_second).
Machine cpu_machine(int64_t ranks, double memory_bytes, double bf16_flops, double fp32_flops,
                    double memory_rate);

}  // namespace trireme::costs
