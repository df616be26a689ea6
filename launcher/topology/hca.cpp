#include "launcher/topology/hca.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace trireme::topology {
namespace {

// "4: ACTIVE" -> "ACTIVE"
std::string after_colon(const std::string& text) {
  const auto at = text.find(": ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

std::vector<Gid> find_gids(const SysFiles& files, const std::string& port) {
  std::vector<Gid> gids;
  for (const auto& name : files.entries(port + "/gids")) {
    const auto address = files.line(port + "/gids/" + name).value_or("");
    if (address.find_first_not_of("0:") == std::string::npos ||
        address == "fe80:0000:0000:0000:0000:0000:0000:0000")
      continue;
    Gid& gid = gids.emplace_back();
    gid.index = std::atoi(name.c_str());
    gid.address = address;
    const auto type = files.line(port + "/gid_attrs/types/" + name).value_or("");
    gid.roce_version = type == "RoCE v2" ? 2 : type == "IB/RoCE v1" || type == "RoCE v1" ? 1 : 0;
    gid.interface = files.line(port + "/gid_attrs/ndevs/" + name).value_or("");
  }
  std::sort(gids.begin(), gids.end(), [](const Gid& a, const Gid& b) { return a.index < b.index; });
  return gids;
}

HcaPort find_port(const SysFiles& files, const std::string& folder, int number,
                  const std::vector<std::string>& interfaces) {
  HcaPort port;
  port.number = number;
  port.state = after_colon(files.line(folder + "/state").value_or("?"));
  port.physical_state = after_colon(files.line(folder + "/phys_state").value_or("?"));
  port.link_layer = files.line(folder + "/link_layer").value_or("?");
  port.gbits = std::strtod(files.line(folder + "/rate").value_or("0").c_str(), nullptr);
  port.gids = find_gids(files, folder);
  if (port.link_layer != "Ethernet")
    for (auto& gid : port.gids) gid.roce_version = 0;  // the kernel writes "IB/RoCE v1" there, too
  for (const auto& gid : port.gids)
    if (port.interface.empty()) port.interface = gid.interface;
  if (port.interface.empty() && !interfaces.empty())
    port.interface = interfaces[std::min<size_t>(number - 1, interfaces.size() - 1)];
  return port;
}

}  // namespace

bool Gid::is_ipv4() const {
  return address.starts_with("0000:0000:0000:0000:0000:ffff:");
}

bool Gid::is_link_local() const {
  return address.starts_with("fe80:0000:0000:0000:");
}

bool natural_less(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      char *end_a = nullptr, *end_b = nullptr;
      const auto x = std::strtoull(&a[i], &end_a, 10), y = std::strtoull(&b[j], &end_b, 10);
      if (x != y) return x < y;
      i = end_a - a.data();
      j = end_b - b.data();
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

std::vector<Hca> find_hcas(const SysFiles& files) {
  std::vector<Hca> hcas;
  const std::string all = "sys/class/infiniband/", verbs = "sys/class/infiniband_verbs/";
  for (const auto& name : files.entries("sys/class/infiniband")) {
    Hca& hca = hcas.emplace_back();
    hca.name = name;
    const auto device = all + name + "/device";
    hca.place = find_place(files, device);
    if (!hca.place.path.empty()) hca.bus_id = hca.place.path.back();
    hca.is_virtual_function = !files.real_path(device + "/physfn").empty();
    auto interfaces = files.entries(device + "/net");
    for (const auto& interface : interfaces) files.exists(device + "/net/" + interface);
    for (const auto& number : files.entries(all + name + "/ports"))
      hca.ports.push_back(
          find_port(files, all + name + "/ports/" + number, std::atoi(number.c_str()), interfaces));
  }
  // A container sees the whole machine's /sys, but only those device files that it was given.
  for (const auto& file : files.entries("sys/class/infiniband_verbs"))
    if (const auto name = files.line(verbs + file + "/ibdev"))
      for (auto& hca : hcas)
        if (hca.name == *name) hca.has_device_file = files.exists("dev/infiniband/" + file);
  std::sort(hcas.begin(), hcas.end(),
            [](const Hca& a, const Hca& b) { return natural_less(a.name, b.name); });
  return hcas;
}

}  // namespace trireme::topology
