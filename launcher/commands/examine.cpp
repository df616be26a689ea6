#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "launcher/commands/examine_host.h"
#include "launcher/commands/host_call.h"
#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr auto kAnswerLimit = 60s, kProbeLimit = 120s;
constexpr auto kLinkLimit = 8s;
constexpr int kTries = 3;            // of a pair that seems slow: a busy host is not a bad cable
constexpr double kSuspicious = 0.3;  // of the fastest pair

doctor::Link link_from(const Json& json) {
  return {.from = 0,
          .to = 0,
          .error = json.at("error"),
          .there = json.at("there"),
          .back = json.at("back"),
          .round_trip = json.at("round_trip")};
}

class Ward {
 public:
  Ward(const Where& where, std::vector<std::string> names)
      : places_(names.size()),
        call_(std::move(names), *(backend_ = where.backend(false)),
              {where.program_folder() + "/trireme", "examine-host"}, where.exported,
              [this](int host, const std::string& own_name, const plan::Report& report) {
                hear(static_cast<size_t>(host), own_name, report);
              }) {
    if (!all([](const Place& place) { return place.patient && !place.address.empty(); }, kAnswerLimit))
      give_up();
  }

  void probe(doctor::ProbeRequest request) {
    if (!request.folder.empty() && places_.size() > 1) {
      request.token = fmt::format(".trireme-doctor-token-{}", process::make_secret());
      say(0, {{"token", request.token}, {"folder", request.folder}});
      if (!call_.listen_until([&] { return places_[0].has_token; }, kAnswerLimit)) give_up();
    }
    for (size_t host = 0; host < places_.size(); ++host) say(host, {{"probe", to_json(request)}});
    if (!all([](const Place& place) { return place.patient->probe.has_value(); }, kProbeLimit)) give_up();
  }

  void try_links() {
    for (const auto& round : rounds_of_pairs(static_cast<int>(places_.size()))) try_pairs(round);
    double best = 0.0;
    for (const auto& link : links_) best = std::max(best, link.slower());
    for (int i = 1; i < kTries; ++i)
      for (auto& link : links_) {
        if (!link.error.empty() || link.slower() >= kSuspicious * best) continue;
        const auto before = link;
        try_pairs({{link.from, link.to}}, &link);
        if (!link.error.empty() || link.slower() < before.slower()) link = before;
      }
  }

  Examined finish() {
    for (size_t host = 0; host < places_.size(); ++host) say(host, {{"end", true}});
    call_.end(5s);
    Examined examined;
    for (auto& place : places_) {
      examined.patients.push_back(std::move(*place.patient));
      examined.clock_skew_ns.push_back(place.skew_ns);
    }
    std::sort(links_.begin(), links_.end(),
              [](const auto& a, const auto& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
    examined.links = std::move(links_);
    return examined;
  }

 private:
  struct Place {
    std::optional<doctor::Patient> patient;
    std::string address;
    int64_t skew_ns = 0;
    bool has_token = false, has_listened = false;
    std::optional<doctor::Link> link;
  };

  template <typename Good>
  bool all(Good good, process::Clock::duration limit) {
    return call_.listen_until([&] { return std::all_of(places_.begin(), places_.end(), good); }, limit);
  }

  [[noreturn]] void give_up() {
    std::vector<bool> answered;
    for (const auto& place : places_) answered.push_back(place.patient && place.patient->probe);
    call_.fail_with_silence(answered);
  }

  void say(size_t host, const Json& order) { call_.send(static_cast<int>(host), order.dump() + "\n"); }

  void hear(size_t host, const std::string& own_name, const plan::Report& report) {
    Place& place = places_[host];
    if (const auto* found = std::get_if<plan::HostReport>(&report)) {
      place.patient.emplace(
          doctor::Patient::from(own_name, topology::SysFiles::from_record(found->machine, own_name)));
      for (const auto& [name, value] : found->settings)
        place.patient->settings.set(name, value.first, value.second);
    } else if (const auto* note = std::get_if<plan::Note>(&report)) {
      const Json answer = Json::parse(note->text);
      if (answer.contains("address")) place.address = answer.at("address");
      if (answer.contains("token")) place.has_token = true;
      if (answer.contains("listened")) place.has_listened = true;
      if (answer.contains("link")) place.link = link_from(answer.at("link"));
      if (answer.contains("probe")) {
        place.patient->probe = doctor::probe_from(answer.at("probe"));
        place.skew_ns = place.patient->probe->clock_ns - doctor::time_of_day_ns();
      }
    }
  }

  // All at the same time. The answers go to links_, or to `only`.
  void try_pairs(const std::vector<std::pair<int, int>>& pairs, doctor::Link* only = nullptr) {
    const auto milliseconds = std::chrono::milliseconds(kLinkLimit).count();
    for (const auto& [a, b] : pairs) {
      auto &from = places_[static_cast<size_t>(a)], &to = places_[static_cast<size_t>(b)];
      from.link.reset();
      to.has_listened = false;
      say(static_cast<size_t>(b), {{"listen", milliseconds}});
      say(static_cast<size_t>(a), {{"connect", to.address}, {"limit", milliseconds}});
    }
    call_.listen_until(
        [&] {
          return std::all_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
            return places_[static_cast<size_t>(pair.first)].link &&
                   places_[static_cast<size_t>(pair.second)].has_listened;
          });
        },
        kLinkLimit + 5s);
    for (const auto& [a, b] : pairs) {
      auto link = places_[static_cast<size_t>(a)].link.value_or(doctor::Link{.error = "no answer"});
      link.from = a;
      link.to = b;
      if (only)
        *only = link;
      else
        links_.push_back(link);
    }
  }

  std::vector<Place> places_;
  std::unique_ptr<backends::Backend> backend_;
  std::vector<doctor::Link> links_;
  HostCall call_;
};

}  // namespace

std::vector<std::vector<std::pair<int, int>>> rounds_of_pairs(int count) {
  // The circle method: one stays, the others move on by one place; with an odd count the one that meets
  // nobody rests.
  const int places = count + count % 2;
  std::vector<std::vector<std::pair<int, int>>> rounds;
  for (int round = 0; round + 1 < places; ++round) {
    auto& pairs = rounds.emplace_back();
    const auto at = [&](int place) { return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1); };
    for (int i = 0; i < places / 2; ++i) {
      const int a = at(i), b = at(places - 1 - i);
      if (a < count && b < count) pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
  }
  return rounds;
}

Examined examine(const Where& where, doctor::ProbeRequest request, bool with_links) {
  if (where.kind != Where::Kind::this_machine) {
    std::vector<std::string> names;
    for (const auto& host : where.hosts) names.push_back(host.name);
    Ward ward(where, names);
    ward.probe(std::move(request));
    if (with_links && names.size() > 1) ward.try_links();
    return ward.finish();
  }
  topology::SysFiles files;
  doctor::read_for_checks(files);
  auto settings = topology::Settings::of_this_process(files);
  auto host = topology::discover(files).host;
  auto patient = doctor::Patient::from(std::move(host), std::move(files));
  patient.settings = std::move(settings);
  patient.probe = doctor::probe_this_host(request);
  Examined examined;
  examined.patients.push_back(std::move(patient));
  examined.clock_skew_ns.push_back(0);
  return examined;
}

}  // namespace trireme::commands
