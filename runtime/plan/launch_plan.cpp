#include "runtime/plan/launch_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::plan {
namespace {

using Json = nlohmann::ordered_json;

// Reads a field and says which one is missing or of the wrong kind.
template <typename Value>
Value field(const Json& object, const char* name, const std::string& where) {
  if (!object.is_object())
    fail(ErrorCode::corrupt_data, "{}: expected an object that holds '{}'", where, name);
  const auto found = object.find(name);
  if (found == object.end()) fail(ErrorCode::corrupt_data, "{}: '{}' is missing", where, name);
  try {
    return found->get<Value>();
  } catch (const Json::exception&) {
    fail(ErrorCode::corrupt_data, "{}: '{}' is of the wrong type: {}", where, name,
         found->dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace

int ranks_on(const LaunchPlan& plan, int node) {
  return static_cast<int>(std::count_if(plan.ranks.begin(), plan.ranks.end(),
                                        [node](const RankPlan& rank) { return rank.node == node; }));
}

std::string launch_plan_path(const std::string& run_dir) {
  return run_dir + "/launch_plan.json";
}

std::string to_json(const LaunchPlan& plan) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankPlan& r = plan.ranks[rank];
    ranks.push_back({{"rank", rank},
                     {"host", r.host},
                     {"node", r.node},
                     {"local_rank", r.local_rank},
                     {"cpus", r.cpus},
                     {"memory_node", r.memory_node},
                     {"gpu", r.gpu},
                     {"gpu_bus_id", r.gpu_bus_id},
                     {"port", r.port},
                     {"threads", r.threads},
                     {"environment", r.environment}});
  }
  const Json all = {{"version", LaunchPlan::kVersion},
                    {"run_dir", plan.run_dir},
                    {"program", plan.program},
                    {"holds_stop", plan.holds_stop},
                    {"attempt", plan.attempt},
                    {"restarts", plan.restarts},
                    {"max_restarts", plan.max_restarts},
                    {"master_address", plan.master_address},
                    {"master_port", plan.master_port},
                    {"ranks", ranks}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

LaunchPlan launch_plan_from_json(const std::string& text, const std::string& where) {
  const Json all = Json::parse(text, nullptr, false);
  if (all.is_discarded()) fail(ErrorCode::corrupt_data, "{} is no JSON", where);
  const int version = field<int>(all, "version", where);
  if (version != LaunchPlan::kVersion)
    fail(ErrorCode::corrupt_data, "{} is of version {}, this program reads {}", where, version,
         LaunchPlan::kVersion);
  LaunchPlan plan;
  plan.run_dir = field<std::string>(all, "run_dir", where);
  plan.program = field<std::vector<std::string>>(all, "program", where);
  plan.holds_stop = field<bool>(all, "holds_stop", where);
  plan.attempt = field<int>(all, "attempt", where);
  plan.restarts = field<int>(all, "restarts", where);
  plan.max_restarts = field<int>(all, "max_restarts", where);
  plan.master_address = field<std::string>(all, "master_address", where);
  plan.master_port = field<int>(all, "master_port", where);
  for (const Json& entry : field<Json>(all, "ranks", where)) {
    const std::string place = fmt::format("{}, rank {}", where, plan.ranks.size());
    if (field<size_t>(entry, "rank", place) != plan.ranks.size())
      fail(ErrorCode::corrupt_data, "{}: ranks are not in order", place);
    RankPlan& r = plan.ranks.emplace_back();
    r.host = field<std::string>(entry, "host", place);
    r.node = field<int>(entry, "node", place);
    r.local_rank = field<int>(entry, "local_rank", place);
    r.cpus = field<std::vector<int>>(entry, "cpus", place);
    r.memory_node = field<int>(entry, "memory_node", place);
    r.gpu = field<int>(entry, "gpu", place);
    r.gpu_bus_id = field<std::string>(entry, "gpu_bus_id", place);
    r.port = field<std::string>(entry, "port", place);
    r.threads = field<int>(entry, "threads", place);
    r.environment = field<std::map<std::string, std::string>>(entry, "environment", place);
  }
  if (plan.ranks.empty()) fail(ErrorCode::corrupt_data, "{} has no ranks", where);
  if (plan.program.empty()) fail(ErrorCode::corrupt_data, "{} names no program", where);
  return plan;
}

void save(const LaunchPlan& plan, const std::string& path) {
  files::write_atomically(path, to_json(plan));
}

LaunchPlan load_launch_plan(const std::string& path) {
  return launch_plan_from_json(files::read(path), path);
}

}  // namespace trireme::plan
