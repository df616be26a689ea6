#include "launcher/process/enlist.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>

#include "launcher/process/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/plan/rank_report.h"

namespace trireme::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartLimit = 60s;  // for the supervisor's answer to our first word
constexpr size_t kLongestStart = 256 << 20;

std::string own_host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The supervisor's answer to our first word, and what came right behind it.
plan::Start wait_for_start(Connection& supervisor, std::vector<std::string>& rest) {
  std::optional<plan::Start> start;
  const auto limit = Clock::now() + kStartLimit;
  while (!start) {
    pollfd watched{supervisor.fd(), POLLIN, 0};
    if (::poll(&watched, 1, milliseconds_until(limit)) == 0)
      fail(ErrorCode::timeout, "the supervisor has not answered for {} s", kStartLimit.count());
    supervisor.receive(kLongestStart, [&](std::string line) {
      if (start)
        rest.push_back(std::move(line));
      else
        start = plan::decode_start(line);
    });
    if (!start && !supervisor.is_open()) fail(ErrorCode::peer_failed, "the supervisor is gone");
  }
  return *start;
}

// Where hosts share the run's folder these files are there already, with this content.
void write_if_different(const std::string& path, const std::string& text) {
  if (std::filesystem::exists(path) && files::read(path) == text) return;
  files::write_atomically(path, text);
}

}  // namespace

Enlisted enlist() {
  Enlisted enlisted{.env = plan::RankEnv::from_environment(), .plan = {}, .supervisor = {}, .orders = {}};
  auto& env = enlisted.env;
  if (env.run_dir.empty() || env.supervisor.empty())
    fail(ErrorCode::invalid_config, "`trireme guard` is started by `trireme run`, not by hand");
  enlisted.supervisor = Connection::to(env.supervisor);
  enlisted.supervisor.send(
      plan::encode(plan::Hello{env.rank, env.secret, own_host_name(), ::getpid(), boot_id()}));
  const auto start = wait_for_start(enlisted.supervisor, enlisted.orders);
  enlisted.plan = plan::launch_plan_from_json(start.plan, "the launch plan from the supervisor");
  if (env.rank >= static_cast<int>(enlisted.plan.ranks.size()))
    fail(ErrorCode::invalid_config, "the launch plan has no rank {}", env.rank);
  env.run_dir = enlisted.plan.run_dir;
  std::filesystem::create_directories(env.run_dir + "/logs");
  write_if_different(plan::launch_plan_path(env.run_dir), start.plan);
  write_if_different(env.run_dir + "/config.toml", start.config);
  return enlisted;
}

}  // namespace trireme::process
