#include "tests/launcher/topology/fake_machine.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "launcher/topology/cpu_list.h"

namespace trireme::topology {
namespace {

namespace fs = std::filesystem;

std::string value(const std::map<std::string, std::string>& values, const std::string& name,
                  const std::string& otherwise = "") {
  const auto found = values.find(name);
  return found == values.end() ? otherwise : found->second;
}

std::array<unsigned, 4> bytes_of(const std::string& address) {
  std::array<unsigned, 4> bytes{};
  if (std::sscanf(address.c_str(), "%u.%u.%u.%u", &bytes[0], &bytes[1], &bytes[2], &bytes[3]) != 4)
    throw std::invalid_argument("no IPv4 address: " + address);
  return bytes;
}

std::string printed(const char* format, auto... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

FakeRoot::FakeRoot(const std::string& table) {
  static int count = 0;
  // Hundreds of small files: in memory if there is room.
  const bool in_memory = ::access("/dev/shm", W_OK) == 0;
  root_ = (in_memory ? fs::path("/dev/shm") : fs::temp_directory_path()) /
          printed("trireme-fake-%d-%d", ::getpid(), count++);
  fs::create_directories(root_);
  std::istringstream lines(table);
  try {
    for (std::string line; std::getline(lines, line);) {
      line.resize(std::min(line.find('#'), line.size()));
      if (line.find_first_not_of(" \t") != std::string::npos) read_line(line);
    }
  } catch (...) {
    fs::remove_all(root_);
    throw;
  }
}

FakeRoot::~FakeRoot() {
  fs::remove_all(root_);
}

void FakeRoot::read_line(const std::string& line) {
  std::istringstream in(line);
  std::string kind, name, word;
  in >> kind >> name;
  Values values;
  if (const auto equals = name.find('='); equals != std::string::npos)
    values[name.substr(0, equals)] = name.substr(equals + 1);
  while (in >> word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("expected NAME=VALUE: " + line);
    values[word.substr(0, equals)] = word.substr(equals + 1);
  }
  if (kind == "host") return write("proc/sys/kernel/hostname", name);
  if (kind == "cpus") return add_cpus(name, values);
  if (kind == "node") {
    node_cpus_[name] = values.at("cpus");
    return write("sys/devices/system/node/node" + name + "/cpulist", values.at("cpus"));
  }
  if (kind == "allowed")
    return write("proc/self/status", "Name:\ttest\nCpus_allowed_list:\t" + values.at("cpus") +
                                         "\nMems_allowed_list:\t" + value(values, "mems", "0"));
  if (kind == "cpuset") return write("sys/fs/cgroup/cpuset.cpus.effective", name);
  if (kind == "limit") return write("sys/fs/cgroup/cpu.max", name + " " + value(values, "period", "100000"));
  if (kind == "gpu") return add_gpu(name, values);
  if (kind == "hca") return add_hca(name, values);
  if (kind == "port") return add_port(name, values);
  if (kind == "gid") return add_gid(name, values);
  if (kind == "ipv4") return add_ipv4(name, values);
  if (kind == "net") return add_interface(name, values);
  if (kind == "route") return add_route(name, values);
  if (kind == "pci") return void(add_device(name, values));
  throw std::invalid_argument("what is this? " + line);
}

void FakeRoot::write(const std::string& path, const std::string& text) const {
  fs::create_directories((root_ / path).parent_path());
  std::ofstream(root_ / path) << text << "\n";
}

void FakeRoot::link(const std::string& path, const std::string& target) const {
  fs::create_directories((root_ / path).parent_path());
  fs::create_symlink((root_ / target).lexically_relative((root_ / path).parent_path()), root_ / path);
}

void FakeRoot::add_cpus(const std::string& count, const Values& values) {
  const int cpus = std::stoi(count), distance = std::stoi(value(values, "siblings", "0"));
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const int first = distance ? cpu % distance : cpu;
    write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          distance ? format_cpu_list({first, first + distance}) : std::to_string(cpu));
  }
  write("sys/devices/system/cpu/online", "0-" + std::to_string(cpus - 1));
}

// As in the real tree, the device is a folder below its bridges, and all else are links to it.
std::string FakeRoot::add_device(const std::string& bus_id, const Values& values) {
  const auto alone = "pci" + bus_id.substr(0, bus_id.find(':', bus_id.find(':') + 1));
  const auto folder = "sys/devices/" + value(values, "under", alone) + "/" + bus_id;
  const auto node = value(values, "node", "-1");
  write(folder + "/numa_node", node);
  write(folder + "/local_cpulist", value(values, "near", node_cpus_[node]));
  write(folder + "/vendor", value(values, "vendor"));
  write(folder + "/class", value(values, "class"));
  write(folder + "/device", value(values, "device"));
  link("sys/bus/pci/devices/" + bus_id, folder);
  return folder;
}

void FakeRoot::add_gpu(const std::string& bus_id, const Values& values) {
  auto device = values;
  const bool amd = values.at("vendor") == "amd";
  device["vendor"] = amd ? "0x1002" : "0x10de";
  device.try_emplace("class", amd ? "0x120000" : "0x030200");
  add_device(bus_id, device);
  if (!amd && !values.contains("hidden"))
    write("proc/driver/nvidia/gpus/" + bus_id + "/information",
          "Model: \t\t NVIDIA Test\nGPU UUID: \t " + value(values, "uuid", "GPU-" + bus_id));
  if (!values.contains("kfd")) return;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  std::sscanf(bus_id.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function);
  const auto node = "sys/class/kfd/kfd/topology/nodes/" + values.at("kfd");
  write(node + "/properties",
        printed("cpu_cores_count 0\nsimd_count %d\nlocation_id %u\ndomain %u",
                values.contains("hidden") ? 0 : 1216, bus << 8 | slot << 3 | function, domain));
}

void FakeRoot::add_hca(const std::string& name, const Values& values) {
  hca_ = name;
  device_ = add_device(values.at("at"), values);
  link("sys/class/infiniband/" + name + "/device", device_);
  if (values.contains("vf_of")) link(device_ + "/physfn", "sys/bus/pci/devices/" + values.at("vf_of"));
  const auto file = "uverbs" + std::to_string(num_hcas_++);
  write("sys/class/infiniband_verbs/" + file + "/ibdev", name);
  if (!values.contains("no_file")) write("dev/infiniband/" + file, "");
}

void FakeRoot::add_port(const std::string& number, const Values& values) {
  port_ = "sys/class/infiniband/" + hca_ + "/ports/" + number;
  const auto layer = value(values, "layer"), state = value(values, "state", "ACTIVE");
  write(port_ + "/state", (state == "ACTIVE" ? "4: " : "1: ") + state);
  write(port_ + "/phys_state", state == "ACTIVE" ? "5: LinkUp" : "2: " + value(values, "link", "Polling"));
  write(port_ + "/link_layer", layer == "ib" ? "InfiniBand" : layer == "eth" ? "Ethernet" : layer);
  write(port_ + "/rate", value(values, "rate") + " Gb/sec (4X)");
  if (const auto net = value(values, "net"); !net.empty())
    fs::create_directories(root_ / device_ / "net" / net);
  if (layer == "ib") add_gid("0", {{"address", "fe80:0000:0000:0000:0015:5dff:fe34:0001"}, {"type", "v1"}});
}

void FakeRoot::add_gid(const std::string& index, const Values& values) const {
  const auto type = value(values, "type");
  write(port_ + "/gids/" + index, value(values, "address", "0000:0000:0000:0000:0000:0000:0000:0000"));
  if (type == "unreadable" || type.empty()) return;
  write(port_ + "/gid_attrs/types/" + index, type == "v2" ? "RoCE v2" : "IB/RoCE v1");
  if (const auto net = value(values, "net"); !net.empty()) write(port_ + "/gid_attrs/ndevs/" + index, net);
}

void FakeRoot::add_ipv4(const std::string& address, const Values& values) const {
  const auto b = bytes_of(address);
  const auto net = value(values, "net");
  const auto mapped = printed("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3]);
  add_gid("0", {{"address", "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb"}, {"type", "v1"}, {"net", net}});
  add_gid("1", {{"address", "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb"}, {"type", "v2"}, {"net", net}});
  add_gid("2", {{"address", mapped}, {"type", "v1"}, {"net", net}});
  add_gid("3", {{"address", mapped}, {"type", "v2"}, {"net", net}});
  add_gid("4", {});
}

void FakeRoot::add_interface(const std::string& name, const Values& values) const {
  const auto folder = "sys/class/net/" + name;
  write(folder + "/operstate", value(values, "state", "up"));
  std::istringstream above(value(values, "above"));
  for (std::string upper; std::getline(above, upper, ',');) write(folder + "/upper_" + upper, "");
}

void FakeRoot::add_route(const std::string& network, const Values& values) {
  if (routes_.empty()) routes_ = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
  unsigned address = 0, mask = 0;
  if (network != "default") {
    const auto slash = network.find('/');
    const auto b = bytes_of(network.substr(0, slash));
    const int bits = std::stoi(network.substr(slash + 1));
    address = b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24;  // the first byte lies first in memory
    mask = __builtin_bswap32(bits ? ~0U << (32 - bits) : 0);
  }
  routes_ += printed("%s\t%08X\t00000000\t0003\t0\t0\t%s\t%08X\t0\t0\t0\n", values.at("via").c_str(), address,
                     value(values, "metric", "0").c_str(), mask);
  fs::create_directories(root_ / "proc/net");
  std::ofstream(root_ / "proc/net/route") << routes_;
}

}  // namespace trireme::topology
