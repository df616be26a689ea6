#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/commands/commands.h"
#include "launcher/commands/parse.h"
#include "launcher/doctor/patient.h"
#include "launcher/topology/host_plan.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::commands {
namespace {

using Json = nlohmann::ordered_json;
using namespace topology;

cxxopts::Options topo_options() {
  auto options = options_of(
      "topo", "", "Shows what this machine has, and how ranks would be bound to it; starts nothing.\n");
  options.add_options()("n,ranks", "number of ranks (default: one per GPU, else 1)", cxxopts::value<int>(),
                        "RANKS")("hosts", "as if the job had so many hosts like this one",
                                 cxxopts::value<int>()->default_value("1"),
                                 "HOSTS")("json", "the same for programs")(
      "save",
      "write what was read to a file, for another machine to look at: names, addresses, NCCL's settings",
      cxxopts::value<std::string>(),
      "FILE")("sysfs-root", "look at what stands below another folder than /, or at a file from --save",
              cxxopts::value<std::string>()->default_value(""), "DIR");
  return options;
}

Json place_json(const Place& place) {
  return {{"memory_node", place.memory_node}, {"cpus", place.cpus}, {"path", place.path}};
}

Json machine_json(const Machine& machine) {
  Json cores = Json::array(), nodes = Json::array(), gpus = Json::array(), hcas = Json::array(),
       interfaces = Json::array();
  for (const auto& core : machine.cores)
    cores.push_back({{"cpus", core.cpus}, {"memory_node", core.memory_node}});
  for (const auto& node : machine.memory_nodes)
    nodes.push_back({{"number", node.number}, {"cpus", node.cpus}, {"may_be_used", node.may_be_used}});
  for (const auto& gpu : machine.gpus)
    gpus.push_back({{"bus_id", gpu.bus_id},
                    {"vendor", gpu.vendor},
                    {"name", gpu.name},
                    {"uuid", gpu.uuid},
                    {"place", place_json(gpu.place)}});
  for (const auto& hca : machine.hcas) {
    Json ports = Json::array();
    for (const auto& port : hca.ports) {
      Json gids = Json::array();
      for (const auto& gid : port.gids)
        gids.push_back({{"index", gid.index},
                        {"address", gid.address},
                        {"roce_version", gid.roce_version},
                        {"interface", gid.interface}});
      ports.push_back({{"number", port.number},
                       {"state", port.state},
                       {"physical_state", port.physical_state},
                       {"link_layer", port.link_layer},
                       {"gbits", port.gbits},
                       {"interface", port.interface},
                       {"gids", gids}});
    }
    hcas.push_back({{"name", hca.name},
                    {"bus_id", hca.bus_id},
                    {"virtual_function", hca.is_virtual_function},
                    {"has_device_file", hca.has_device_file},
                    {"place", place_json(hca.place)},
                    {"ports", ports}});
  }
  for (const auto& interface : machine.interfaces)
    interfaces.push_back({{"name", interface.name}, {"up", interface.is_up}, {"above", interface.above}});
  return {{"host", machine.host},
          {"cpu_limit", machine.cpu_limit},
          {"memory_nodes", nodes},
          {"cores", cores},
          {"gpus", gpus},
          {"hcas", hcas},
          {"interfaces", interfaces},
          {"default_route", interface_towards(machine.routes)}};
}

Json distances_json(const Machine& machine) {
  Json rows = Json::array();
  for (const auto& gpu : machine.gpus) {
    Json row = Json::object();
    for (const auto& hca : machine.hcas)
      row[hca.name] = to_string(separation(gpu.place, hca.place, machine.memory_nodes.size()).distance);
    rows.push_back(row);
  }
  return rows;
}

Json variables_json(const std::vector<Variable>& variables) {
  Json list = Json::array();
  for (const auto& v : variables) list.push_back({{"name", v.name}, {"value", v.value}, {"why", v.why}});
  return list;
}

Json plan_json(const Machine& machine, const HostPlan& plan) {
  Json ranks = Json::array(), used = Json::array(), dropped = Json::array(), remarks = Json::array();
  for (const auto& rank : plan.ranks)
    ranks.push_back({{"gpu", rank.binding.gpu},
                     {"port", rank.port ? port_name(machine, *rank.port) : ""},
                     {"distance", rank.port ? to_string(rank.to_port.distance) : ""},
                     {"cpus", rank.binding.cpus},
                     {"memory_node", rank.binding.memory_node},
                     {"threads", rank.binding.threads},
                     {"variables", variables_json(rank.variables)}});
  for (const auto port : plan.choice.used) used.push_back(port_name(machine, port));
  for (const auto& drop : plan.choice.dropped)
    dropped.push_back({{"port", port_name(machine, drop.port)}, {"reason", drop.reason}});
  for (const auto& r : plan.remarks)
    remarks.push_back({{"kind", to_string(r.kind)},
                       {"name", r.name},
                       {"value", r.value},
                       {"source", r.source},
                       {"text", r.text}});
  return {{"ranks", ranks},
          {"ports_used", used},
          {"ports_left_out", dropped},
          {"variables", variables_json(plan.variables)},
          {"already_set", remarks},
          {"warnings", plan.choice.warnings}};
}

}  // namespace

int topo(const Arguments& arguments) {
  auto options = topo_options();
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  if (const auto extra = positional(*parsed); !extra.empty())
    fail(ErrorCode::invalid_config, "`trireme topo` has options only; what is '{}'?", extra[0]);
  const int hosts = (*parsed)["hosts"].as<int>();
  if (hosts < 1) fail(ErrorCode::invalid_config, "--hosts {}: a job has at least one host", hosts);

  const SysFiles files((*parsed)["sysfs-root"].as<std::string>());
  const auto settings = Settings::of_this_process(files);
  auto machine = discover(files);
  machine.gpus = visible_gpus(std::move(machine.gpus), settings);
  if (parsed->count("save")) {
    doctor::read_for_checks(files);  // so that `trireme doctor` can look at it, too
    files::write_atomically((*parsed)["save"].as<std::string>(), files.record());
  }
  if (machine.cores.empty())
    fail(ErrorCode::invalid_config, "{} tells of no CPU; is it a folder that holds sys/ and proc/?",
         (*parsed)["sysfs-root"].as<std::string>());
  int ranks = asked_ranks(*parsed);
  if (ranks == 0) ranks = std::max<int>(1, static_cast<int>(machine.gpus.size()));
  const auto plan = plan_host(machine, settings, {.num_hosts = hosts}, ranks);
  if (parsed->count("json")) {
    const Json all = {{"machine", machine_json(machine)},
                      {"distances", distances_json(machine)},
                      {"plan", plan_json(machine, plan)}};
    fmt::print("{}\n", all.dump(1, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  const auto matrix = matrix_text(machine);
  fmt::print("{}{}{}\n{}", tree_text(machine), matrix.empty() ? "" : "\n", matrix, plan_text(machine, plan));
  return 0;
}

}  // namespace trireme::commands
