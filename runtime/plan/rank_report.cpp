#include "runtime/plan/rank_report.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::plan {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<Order, const char*>, 8> kOrders{{{Order::beat, "beat"},
                                                                {Order::stop, "stop"},
                                                                {Order::end, "end"},
                                                                {Order::kill, "kill"},
                                                                {Order::pause, "pause"},
                                                                {Order::resume, "resume"},
                                                                {Order::leave, "leave"},
                                                                {Order::ask, "ask"}}};

std::string to_line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json page_to_json(const RankPage::Snapshot& s) {
  Json page = {{"phase", s.phase},
               {"stage", s.stage},
               {"step", s.step},
               {"total_steps", s.total_steps},
               {"phase_began_ns", s.phase_began_ns},
               {"changed_ns", s.changed_ns},
               {"ticks", s.ticks}};
  if (s.has_error)
    page["error"] = {{"code", to_string(s.error_code)}, {"message", s.error}, {"at_ns", s.error_ns}};
  for (const auto& c : s.collectives)
    page["collectives"].push_back({{"communicator", c.communicator},
                                   {"op", c.op},
                                   {"dtype", c.dtype},
                                   {"seq", c.seq},
                                   {"count", c.count},
                                   {"running", c.running},
                                   {"began_ns", c.began_ns},
                                   {"ended_ns", c.ended_ns}});
  return page;
}

RankPage::Snapshot page_from_json(const Json& page) {
  RankPage::Snapshot s;
  page.at("phase").get_to(s.phase);
  page.at("stage").get_to(s.stage);
  page.at("step").get_to(s.step);
  page.at("total_steps").get_to(s.total_steps);
  page.at("phase_began_ns").get_to(s.phase_began_ns);
  page.at("changed_ns").get_to(s.changed_ns);
  page.at("ticks").get_to(s.ticks);
  if (const auto error = page.find("error"); error != page.end()) {
    s.has_error = true;
    s.error_code = error_code_from(error->at("code").get<std::string>());
    error->at("message").get_to(s.error);
    error->at("at_ns").get_to(s.error_ns);
  }
  for (const Json& c : page.value("collectives", Json::array()))
    s.collectives.push_back({c.at("communicator"), c.at("op"), c.at("dtype"), c.at("seq"), c.at("count"),
                             c.at("running"), c.at("began_ns"), c.at("ended_ns")});
  return s;
}

struct Encode {
  Json operator()(const Hello& m) const {
    return {
        {"hello", m.rank}, {"secret", m.secret}, {"host", m.host}, {"pid", m.guard_pid}, {"boot", m.boot}};
  }
  Json operator()(const HostReport& m) const {
    return {{"machine", m.machine}, {"settings", m.settings}, {"free_port", m.free_port}};
  }
  Json operator()(const Output& m) const { return {{m.is_error ? "stderr" : "stdout", m.lines}}; }
  Json operator()(const State& m) const {
    return {
        {"state", page_to_json(m.page)}, {"now_ns", m.now_ns}, {"stopped", m.stopped}, {"stuck", m.stuck}};
  }
  Json operator()(const Exit& m) const {
    return {{"exit", m.status},
            {"signaled", m.signaled},
            {"ended_by_guard", m.ended_by_guard},
            {"at_ns", m.at_ns},
            {"page", page_to_json(m.page)},
            {"now_ns", m.now_ns},
            {"last_lines", m.last_lines},
            {"kernel", m.kernel}};
  }
  Json operator()(const Note& m) const { return {{"note", m.text}}; }
  Json operator()(const Diagnosis& m) const { return {{"diagnosis", m.lines}}; }
};

Report report_from(const Json& m) {
  if (m.contains("hello"))
    return Hello{m.at("hello"), m.at("secret"), m.at("host"), m.at("pid"), m.at("boot")};
  if (m.contains("machine")) return HostReport{m.at("machine"), m.at("settings"), m.at("free_port")};
  if (m.contains("stdout")) return Output{false, m.at("stdout")};
  if (m.contains("stderr")) return Output{true, m.at("stderr")};
  if (m.contains("note")) return Note{m.at("note")};
  if (m.contains("diagnosis")) return Diagnosis{m.at("diagnosis")};
  if (m.contains("state"))
    return State{page_from_json(m.at("state")), m.at("now_ns"), m.at("stopped"), m.at("stuck")};
  return Exit{m.at("signaled"),
              m.at("exit"),
              m.at("ended_by_guard"),
              m.at("at_ns"),
              page_from_json(m.at("page")),
              m.at("now_ns"),
              m.at("last_lines"),
              m.at("kernel")};
}

}  // namespace

std::string encode(const Report& report) {
  return to_line(std::visit(Encode{}, report));
}

std::string encode(Order order) {
  for (const auto& [value, name] : kOrders)
    if (value == order) return to_line({{"order", name}});
  fail(ErrorCode::internal, "an order without a name");
}

Report decode_report(const std::string& line) {
  try {
    return report_from(Json::parse(line));
  } catch (const Json::exception& error) {
    fail(ErrorCode::corrupt_data, "a rank's report makes no sense: {}", error.what());
  }
}

Order decode_order(const std::string& line) {
  try {
    const Json message = Json::parse(line);
    const auto word = message.at("order").get<std::string>();
    for (const auto& [value, name] : kOrders)
      if (word == name) return value;
    fail(ErrorCode::corrupt_data, "the supervisor's order '{}' is not known", word);
  } catch (const Json::exception& error) {
    fail(ErrorCode::corrupt_data, "the supervisor's order makes no sense: {}", error.what());
  }
}

std::string encode(const Start& start) {
  return to_line({{"plan", start.plan}, {"config", start.config}});
}

Start decode_start(const std::string& line) {
  try {
    const Json message = Json::parse(line);
    return {message.at("plan"), message.at("config")};
  } catch (const Json::exception& error) {
    fail(ErrorCode::corrupt_data, "what the supervisor says makes no sense: {}", error.what());
  }
}

}  // namespace trireme::plan
