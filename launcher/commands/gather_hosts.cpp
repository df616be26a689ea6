#include "launcher/commands/gather_hosts.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/commands/host_call.h"
#include "launcher/process/clock.h"
#include "launcher/process/connection.h"
#include "runtime/base/error.h"
#include "runtime/plan/rank_env.h"

namespace trireme::commands {
namespace {

using namespace std::chrono_literals;
using process::Clock;

constexpr auto kLimit = 60s;

// Only these say something about NCCL, MPI or GPUs; what else is in an environment is nobody's business.
bool is_of_interest(const std::string& name) {
  static constexpr std::array<std::string_view, 11> kPrefixes{
      "NCCL_", "RCCL_", "UCX_", "OMPI_MCA_", "CUDA_", "HIP_", "HSA_", "ROCR_", "GPU_", "TORCH_", "NVIDIA_"};
  for (const auto prefix : kPrefixes)
    if (name.starts_with(prefix)) return true;
  return false;
}

Host host_from(const std::string& own_name, const plan::HostReport& report) {
  const auto files = topology::SysFiles::from_record(report.machine, own_name);
  Host host;
  for (const auto& [name, value] : report.settings) host.settings.set(name, value.first, value.second);
  host.machine = topology::discover(files);
  host.machine.host = own_name;
  host.free_port = report.free_port;
  return host;
}

}  // namespace

std::vector<Host> gather_hosts(const std::vector<std::string>& names, const backends::Backend& backend,
                               const std::vector<std::string>& program,
                               const std::vector<std::string>& exported) {
  std::vector<Host> hosts(names.size());
  std::vector<bool> answered(names.size(), false);
  HostCall call(names, backend, program, exported,
                [&](int host, const std::string& own_name, const plan::Report& report) {
                  const auto* what = std::get_if<plan::HostReport>(&report);
                  if (!what) return;
                  hosts[static_cast<size_t>(host)] = host_from(own_name, *what);
                  answered[static_cast<size_t>(host)] = true;
                });
  const auto all = [&] { return std::find(answered.begin(), answered.end(), false) == answered.end(); };
  const bool complete = call.listen_until(all, kLimit);
  call.end(complete ? 5s : 0s);
  if (!complete) call.fail_with_silence(answered);
  return hosts;
}

plan::HostReport report_of(const topology::SysFiles& files) {
  const auto settings = topology::Settings::of_this_process(files);
  plan::HostReport report;
  for (const auto& [name, value] : settings.all())
    if (is_of_interest(name)) report.settings[name] = {value.text, value.source};
  report.machine = files.record();
  report.free_port = process::free_port();
  return report;
}

int report_host(const Arguments&) {
  const auto env = plan::RankEnv::from_environment();
  if (env.supervisor.empty())
    fail(ErrorCode::invalid_config, "`trireme report-host` is started by `trireme run`, not by hand");
  auto supervisor = process::Connection::to(env.supervisor);
  const topology::SysFiles files;
  const auto machine = topology::discover(files);
  supervisor.send(
      plan::encode(plan::Hello{env.rank, env.secret, machine.host, ::getpid(), process::boot_id()}));
  supervisor.send(plan::encode(report_of(files)));
  const auto limit = Clock::now() + 10s;
  while (supervisor.backlog() && Clock::now() < limit) {
    pollfd watched{supervisor.fd(), POLLOUT, 0};
    ::poll(&watched, 1, 100);
    supervisor.flush();
  }
  return supervisor.backlog() ? 1 : 0;
}

}  // namespace trireme::commands
