// `trireme examine-host`: the doctor's hands on one host. Does what it is asked for, one thing after the
// other:
//   {"probe": ProbeRequest}             -> {"probe": Probe}
//   {"token": NAME, "folder": FOLDER}   -> {"token": true}; the file is there until this process ends
//   {"listen": MILLISECONDS}            -> {"listened": true}
//   {"connect": ADDRESS, "limit": MILLISECONDS} -> {"link": {...}}
//   {"end": true}
// or until the connection ends.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/commands/examine_host.h"
#include "launcher/commands/gather_hosts.h"
#include "launcher/doctor/patient.h"
#include "launcher/process/clock.h"
#include "launcher/process/connection.h"
#include "runtime/base/error.h"
#include "runtime/plan/rank_env.h"

namespace trireme::commands {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr size_t kLongestOrder = 16 << 20;

// Our address on the way to the doctor: other hosts of the job reach us there, too.
std::string own_address(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return process::to_text(ntohl(address.sin_addr.s_addr));
}

Json link_json(const doctor::Link& link) {
  return {{"error", link.error}, {"there", link.there}, {"back", link.back}, {"round_trip", link.round_trip}};
}

class Examination {
 public:
  explicit Examination(const plan::RankEnv& env)
      : secret_(env.secret), doctor_(process::Connection::to(env.supervisor)) {
    const topology::SysFiles files;
    const auto machine = topology::discover(files);
    doctor::read_for_checks(files);
    doctor_.send(
        plan::encode(plan::Hello{env.rank, env.secret, machine.host, ::getpid(), process::boot_id()}));
    doctor_.send(plan::encode(report_of(files)));
    tell({{"address", fmt::format("{}:{}", own_address(doctor_.fd()), end_.port())}});
  }
  ~Examination() {
    if (!token_.empty()) ::unlink(token_.c_str());
  }
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;

  void run() {
    while (doctor_.is_open() && !ended_) {
      pollfd watched{doctor_.fd(), static_cast<short>(POLLIN | (doctor_.backlog() ? POLLOUT : 0)), 0};
      ::poll(&watched, 1, -1);
      doctor_.flush();
      std::vector<std::string> orders;
      doctor_.receive(kLongestOrder, [&](std::string line) { orders.push_back(std::move(line)); });
      for (const auto& order : orders) obey(Json::parse(order));
    }
  }

 private:
  void tell(const Json& answer) {
    doctor_.send(plan::encode(plan::Note{answer.dump(-1, ' ', false, Json::error_handler_t::replace)}));
  }

  void obey(const Json& order) {
    if (order.contains("end")) {
      ended_ = true;
    } else if (order.contains("probe")) {
      tell({{"probe", doctor::to_json(probe_this_host(doctor::probe_request_from(order.at("probe"))))}});
    } else if (order.contains("token")) {
      token_ = doctor::existing_folder(order.at("folder")) + "/" + order.at("token").get<std::string>();
      std::ofstream(token_) << "made by `trireme doctor`, which deletes it\n";
      tell({{"token", true}});
    } else if (order.contains("connect")) {
      tell(
          {{"link", link_json(end_.connect(order.at("connect"), secret_, milliseconds(order.at("limit"))))}});
    } else if (order.contains("listen")) {
      end_.accept(secret_, milliseconds(order.at("listen")));
      tell({{"listened", true}});
    }
  }

  const std::string secret_;
  process::Connection doctor_;
  const doctor::LinkEnd end_;
  std::string token_;
  bool ended_ = false;
};

}  // namespace

int examine_host(const Arguments&) {
  const auto env = plan::RankEnv::from_environment();
  if (env.supervisor.empty())
    fail(ErrorCode::invalid_config, "`trireme examine-host` is started by `trireme doctor`, not by hand");
  Examination(env).run();
  return 0;
}

}  // namespace trireme::commands
