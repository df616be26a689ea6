// Writes a /sys (and a /proc) for a machine that a table describes, so that tests need no such machine.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launcher/topology/cpu_list.h"

namespace trireme::topology {

struct FakeMachine {
  struct Node {
    std::vector<int> cpus;  // of both hyperthreads
  };
  struct Device {
    std::string bus_id;
    int node = -1;
    std::string vendor = "0x10de", device_class = "0x030200";
    bool in_container = true;  // shown under /proc/driver/nvidia/gpus
  };
  int cpus = 0;
  int hyperthread_distance = 0;  // CPU i and i + this are one core; 0: one thread a core
  std::vector<Node> nodes;
  std::vector<Device> devices;
  bool has_nvidia_proc = false;
  std::string cpu_max;  // the control group's, "200000 100000"
};

/// The folder that stands for "/" of the machine; removed with this object.
class FakeRoot {
 public:
  explicit FakeRoot(const FakeMachine& m) {
    static int count = 0;
    root_ = std::filesystem::temp_directory_path() /
            ("trireme-fake-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    for (int cpu = 0; cpu < m.cpus; ++cpu) {
      const int half = m.hyperthread_distance;
      const int first = half ? cpu % half : cpu;
      write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            half ? format_cpu_list({first, first + half}) : std::to_string(cpu));
    }
    for (size_t node = 0; node < m.nodes.size(); ++node)
      write("sys/devices/system/node/node" + std::to_string(node) + "/cpulist",
            format_cpu_list(m.nodes[node].cpus));
    if (!m.cpu_max.empty()) write("sys/fs/cgroup/cpu.max", m.cpu_max);
    for (const auto& device : m.devices) {
      const std::string folder = "sys/bus/pci/devices/" + device.bus_id + "/";
      write(folder + "vendor", device.vendor);
      write(folder + "class", device.device_class);
      write(folder + "numa_node", std::to_string(device.node));
      if (device.node >= 0) write(folder + "local_cpulist", format_cpu_list(m.nodes[device.node].cpus));
      if (m.has_nvidia_proc && device.in_container)
        write("proc/driver/nvidia/gpus/" + device.bus_id + "/information", "");
    }
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  std::string path() const { return root_; }

 private:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

  std::filesystem::path root_;
};

inline std::vector<int> range(int first, int last) {
  std::vector<int> numbers;
  for (int i = first; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

inline std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Two sockets of 8 cores with two threads, four GPUs whose bus order is not the order of the nodes.
inline FakeMachine two_sockets() {
  return {.cpus = 32,
          .hyperthread_distance = 16,
          .nodes = {{joined(range(0, 7), range(16, 23))}, {joined(range(8, 15), range(24, 31))}},
          .devices = {{.bus_id = "0000:01:00.0", .node = 1},
                      {.bus_id = "0000:02:00.0", .node = 0},
                      {.bus_id = "0000:03:00.0", .node = 0},
                      {.bus_id = "0000:81:00.0", .node = 1}}};
}

}  // namespace trireme::topology
