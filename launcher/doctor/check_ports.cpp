#include <algorithm>

#include "launcher/doctor/checks.h"
#include "launcher/topology/hca_choice.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

using topology::Hca;
using topology::HcaPort;

std::string folder_of(const Hca& hca, const HcaPort& port) {
  return fmt::format("sys/class/infiniband/{}/ports/{}", hca.name, port.number);
}

std::string name_of(const Hca& hca, const HcaPort& port) {
  return fmt::format("{} port {}", hca.name, port.number);
}

Finding down(const std::string& host, const Hca& hca, const HcaPort& port) {
  Finding finding{
      .severity = Severity::error,
      .check = "ports",
      .hosts = {host},
      .what =
          fmt::format("{} is down (state {}, link {})", name_of(hca, port), port.state, port.physical_state),
      .why = "the GPUs beside it send through other ports, and every rank waits for the slowest one",
      .to_do = "look at the cable, the transceiver and the switch's port; `ibstat` shows the same"};
  if (port.physical_state == "LinkUp") {
    finding.to_do =
        "the cable is good, but no subnet manager has taken the port in: is opensm, or the switch's "
        "own, running?";
  } else if (port.physical_state == "Disabled") {
    finding.to_do = fmt::format("somebody has disabled it: `ibportstate`, or `ip link set {} up`",
                                port.interface.empty() ? "INTERFACE" : port.interface);
  }
  return finding;
}

// The lanes of "400 Gb/sec (4X NDR)"; 0 if it does not say.
int lanes(const std::string& rate) {
  const auto at = rate.find('(');
  return at == std::string::npos ? 0 : std::atoi(rate.c_str() + at + 1);
}

// One of whose ports is up: it is not expected to use both.
bool is_used(const Hca& hca) {
  return std::any_of(hca.ports.begin(), hca.ports.end(), [](const auto& port) { return port.is_up(); });
}

struct Counter {
  const char* file;
  int64_t most;  // below which it says nothing: counters run since the driver was loaded
  const char* meaning;
};
// From the InfiniBand specification's PortCounters and the kernel's sysfs-class-infiniband.
constexpr Counter kCounters[] = {
    {"counters/symbol_error", 100, "bits that the line got wrong"},
    {"counters/link_error_recovery", 10, "times that the link had to recover"},
    {"counters/link_downed", 10, "times that the link went down"},
    {"counters/local_link_integrity_errors", 0, "errors beyond what the link tolerates"},
    {"counters/port_rcv_errors", 100, "packets that arrived broken"},
    {"counters/excessive_buffer_overrun_errors", 0, "overruns of buffers"},
    {"hw_counters/packet_seq_err", 1000, "packets that were lost and sent again"},
    {"hw_counters/local_ack_timeout_err", 1000, "packets that nobody acknowledged"}};

void add_counters(const Patient& patient, const Hca& hca, const HcaPort& port,
                  std::vector<Finding>& findings) {
  for (const auto& counter : kCounters) {
    const auto text = patient.files.line(folder_of(hca, port) + "/" + counter.file).value_or("");
    const int64_t value = std::strtoll(text.c_str(), nullptr, 10);
    if (value <= counter.most) continue;
    findings.push_back(
        {.severity = Severity::warning,
         .check = "ports",
         .hosts = {patient.host},
         .what =
             fmt::format("{} counts {} {} ({})", name_of(hca, port), value, counter.meaning, counter.file),
         .why = "what is lost is sent again, and all ranks wait for it",
         .to_do = "clear the counter (`perfquery -R`), run, and look again: if it grows, clean or "
                  "exchange the cable or the transceiver"});
  }
}

// Whether a GPU is nearer to it than to every port that is up.
bool is_the_nearest(const topology::Machine& machine, const Hca& hca) {
  const auto distance = [&](const topology::Gpu& gpu, const Hca& other) {
    return topology::separation(gpu.place, other.place, machine.memory_nodes.size()).distance;
  };
  return std::any_of(machine.gpus.begin(), machine.gpus.end(), [&](const auto& gpu) {
    return std::none_of(machine.hcas.begin(), machine.hcas.end(), [&](const Hca& other) {
      return is_used(other) && distance(gpu, other) <= distance(gpu, hca);
    });
  });
}

// Slots without a cable are usual, and so are ports that somebody has disabled. What is missed is a port that
// is down where most are up, which has a cable, or which some GPU has no substitute for.
bool is_missed(const topology::Machine& machine, const Hca& hca) {
  if (hca.is_virtual_function || hca.ports.empty() || is_used(hca)) return false;
  const auto& port = hca.ports.front();
  if (port.physical_state == "LinkUp" || is_the_nearest(machine, hca)) return true;
  if (port.physical_state == "Disabled") return false;
  const auto up = std::count_if(machine.hcas.begin(), machine.hcas.end(), is_used);
  return 2 * up > static_cast<std::ptrdiff_t>(machine.hcas.size());
}

}  // namespace

std::vector<Finding> check_ports(const Patients& patients) {
  std::vector<Finding> findings;
  std::vector<topology::HostPorts> ports_of_hosts;
  for (const auto& patient : patients) {
    int widest = 0;
    const auto rate = [&](const Hca& hca, const HcaPort& port) {
      return patient.files.line(folder_of(hca, port) + "/rate").value_or("");
    };
    for (const auto& hca : patient.machine.hcas)
      for (const auto& port : hca.ports)
        if (port.is_up()) widest = std::max(widest, lanes(rate(hca, port)));
    for (const auto& hca : patient.machine.hcas) {
      if (is_missed(patient.machine, hca)) findings.push_back(down(patient.host, hca, hca.ports.front()));
      for (const auto& port : hca.ports) {
        if (!port.is_up()) continue;
        const int own = lanes(rate(hca, port));
        if (own > 0 && own < widest)
          findings.push_back({.severity = Severity::warning,
                              .check = "ports",
                              .hosts = {patient.host},
                              .what = fmt::format("{} runs on {} of {} lanes: {}", name_of(hca, port), own,
                                                  widest, rate(hca, port)),
                              .why = "all ranks wait for the slowest port",
                              .to_do = "plug the cable in again, then exchange it"});
        add_counters(patient, hca, port, findings);
      }
    }
    ports_of_hosts.push_back(
        topology::host_ports(patient.machine, topology::choose_hcas(patient.machine, std::nullopt)));
    ports_of_hosts.back().host = patient.host;
  }
  for (const auto& text : topology::differences(ports_of_hosts))
    findings.push_back(
        {.severity = Severity::warning,
         .check = "ports",
         .hosts = {},
         .what = text,
         .why = "NCCL pairs the ports of hosts one by one: the host with fewer or slower ones sets "
                "the pace, and a mix of link layers does not work at all",
         .to_do = "`trireme topo` on that host says why ports are left out"});
  return findings;
}

std::vector<Finding> check_pcie(const Patients& patients) {
  std::vector<Finding> findings;
  for (const auto& patient : patients) {
    const auto look = [&](const std::string& what, const std::string& bus_id) {
      const auto folder = "sys/bus/pci/devices/" + bus_id;
      const int now = patient.files.number(folder + "/current_link_width", 0);
      const int most = patient.files.number(folder + "/max_link_width", 0);
      if (now > 0 && most > 0 && most < 255 && now < most)
        findings.push_back(
            {.severity = Severity::warning,
             .check = "pcie",
             .hosts = {patient.host},
             .what = fmt::format("{} {} uses {} of its {} PCIe lanes", what, bus_id, now, most),
             .why = "everything between it and the host takes longer in proportion",
             .to_do = "seat the card again, look at the riser; some slots have fewer lanes than the "
                      "card"});
    };
    for (const auto& gpu : patient.machine.gpus) look("GPU", gpu.bus_id);
    for (const auto& hca : patient.machine.hcas)
      if (!hca.is_virtual_function) look("HCA", hca.bus_id);
  }
  return findings;
}

}  // namespace trireme::doctor
