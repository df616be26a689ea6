#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "launcher/topology/cpu_list.h"
#include "launcher/topology/host_plan.h"

namespace trireme::topology {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as they need to be, two spaces between them.
std::string table(const std::vector<Row>& rows, const std::string& indent) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string node_text(int node) {
  return node < 0 ? "-" : std::to_string(node);
}

std::string port_text(const HcaPort& port) {
  auto text = fmt::format("port {}: {} {} Gb/s, {}", port.number, port.link_layer, port.gbits, port.state);
  if (!port.is_up()) text += "/" + port.physical_state;
  if (!port.interface.empty()) text += ", " + port.interface;
  if (const auto index = gid_index(port)) text += fmt::format(", address {}", *index);
  return text;
}

// PCI bridges and devices below a memory node. A bridge with one thing below it is not worth a line.
struct Branch {
  std::map<std::string, Branch> below;
  std::vector<std::string> lines;  // what a device at this place says of itself
};

void print(const std::string& name, const Branch& branch, const std::string& indent, bool is_root,
           std::string& text) {
  const bool worth_a_line = is_root || branch.below.size() > 1;
  if (worth_a_line && branch.lines.empty()) text += indent + name + "\n";
  for (const auto& line : branch.lines) text += indent + line + "\n";
  const auto deeper = worth_a_line || !branch.lines.empty() ? indent + "  " : indent;
  for (const auto& [below, deep] : branch.below) print(below, deep, deeper, false, text);
}

}  // namespace

std::string tree_text(const Machine& machine) {
  std::string text = fmt::format("{}: {} CPUs in {} cores to use, {} memory {}, {} {}, {} {}\n", machine.host,
                                 machine.num_cpus(), machine.cores.size(), machine.memory_nodes.size(),
                                 machine.memory_nodes.size() == 1 ? "node" : "nodes", machine.gpus.size(),
                                 machine.gpus.size() == 1 ? "GPU" : "GPUs", machine.hcas.size(),
                                 machine.hcas.size() == 1 ? "HCA" : "HCAs");
  if (machine.cpu_limit)
    text += fmt::format("CPU time of this container: {} CPUs' worth\n", machine.cpu_limit);
  std::map<int, Branch> nodes;
  for (const auto& node : machine.memory_nodes) nodes[node.number];
  const auto at = [&](const Place& place) -> Branch& {
    Branch* branch = &nodes[place.memory_node];
    for (const auto& part : place.path) branch = &branch->below[part];
    return *branch;
  };
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    at(gpu.place).lines.push_back(
        fmt::format("GPU {}  {}  {}", i, gpu.bus_id, gpu.name.empty() ? gpu.vendor : gpu.name));
  }
  for (const auto& hca : machine.hcas) {
    auto& lines = at(hca.place).lines;
    lines.push_back(
        fmt::format("{}  {}{}", hca.name, hca.bus_id, hca.is_virtual_function ? "  virtual function" : ""));
    for (const auto& port : hca.ports) lines.push_back("  " + port_text(port));
  }
  for (const auto& [number, branch] : nodes) {
    const auto node = std::find_if(machine.memory_nodes.begin(), machine.memory_nodes.end(),
                                   [&, n = number](const MemoryNode& m) { return m.number == n; });
    if (node == machine.memory_nodes.end()) {
      text += "\nmemory node not known\n";
    } else {
      std::vector<int> mine;
      for (const auto& core : machine.cores)
        if (core.memory_node == number) mine.insert(mine.end(), core.cpus.begin(), core.cpus.end());
      std::sort(mine.begin(), mine.end());
      text += fmt::format("\nmemory node {}: CPUs {}", number, format_cpu_list(node->cpus));
      if (mine != node->cpus) text += mine.empty() ? ", none for us" : ", for us " + format_cpu_list(mine);
      text += node->may_be_used ? "\n" : ", its memory is not for us\n";
    }
    for (const auto& line : branch.lines)
      text += "  " + line + "\n";  // devices that do not say where they are
    for (const auto& [name, below] : branch.below) print(name, below, "  ", true, text);
  }
  return text;
}

std::string matrix_text(const Machine& machine) {
  if (machine.gpus.empty() && machine.hcas.empty()) return "";
  std::vector<std::pair<std::string, const Place*>> all;
  for (size_t i = 0; i < machine.gpus.size(); ++i)
    all.emplace_back(fmt::format("GPU {}", i), &machine.gpus[i].place);
  for (const auto& hca : machine.hcas) all.emplace_back(hca.name, &hca.place);
  std::vector<Row> rows{{""}};
  for (const auto& [name, place] : all) rows[0].push_back(name);
  for (const auto& [name, place] : all) {
    Row row{name};
    for (const auto& other : all)
      row.emplace_back(
          place == other.second
              ? "-"
              : to_string(separation(*place, *other.second, machine.memory_nodes.size()).distance));
    rows.push_back(row);
  }
  return table(rows, "");
}

std::string plan_text(const Machine& machine, const HostPlan& plan) {
  std::vector<Row> rows{{"rank", "gpu", "port", "distance", "cpus", "memory node", "threads"}};
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& mine = plan.ranks[rank];
    const auto& binding = mine.binding;
    rows.push_back(
        {std::to_string(rank),
         binding.gpu < 0 ? "-" : fmt::format("{} ({})", binding.gpu, machine.gpus[binding.gpu].bus_id),
         mine.port ? port_name(machine, *mine.port) : "-", mine.port ? to_string(mine.to_port.distance) : "-",
         format_cpu_list(binding.cpus), node_text(binding.memory_node), std::to_string(binding.threads)});
  }
  auto text = table(rows, "");
  rows.clear();
  for (const auto& dropped : plan.choice.dropped)
    rows.push_back({port_name(machine, dropped.port), dropped.reason});
  if (!rows.empty()) text += "\nports left out\n" + table(rows, "  ");

  auto variables = plan.variables;
  for (auto variable : plan.ranks.empty() ? std::vector<Variable>{} : plan.ranks[0].variables) {
    variable.value = "the rank's port";
    variables.push_back(variable);
  }
  if (!variables.empty()) text += "\nset for ranks\n";
  for (const auto& v : variables) text += fmt::format("  {}={}\n      {}\n", v.name, v.value, v.why);
  if (!plan.remarks.empty()) text += "\nalready set, and stays as it is\n";
  for (const auto& r : plan.remarks)
    text += fmt::format("  {}={} ({})\n      {}: {}\n", r.name, r.value, r.source, to_string(r.kind), r.text);
  for (const auto& warning : plan.choice.warnings) text += "\nwarning: " + warning + "\n";
  return text;
}

}  // namespace trireme::topology
