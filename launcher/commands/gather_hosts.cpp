#include "launcher/commands/gather_hosts.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <string_view>

#include "launcher/process/child.h"
#include "launcher/process/guard.h"
#include "launcher/process/rank_settings.h"
#include "launcher/process/switchboard.h"
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

// What a child wrote into a file without a name.
std::string text_of(int fd) {
  std::string text(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

[[noreturn]] void fail_with_silence(const std::vector<std::string>& names,
                                    const std::vector<std::optional<Host>>& hosts, const std::string& said,
                                    const backends::Backend& backend) {
  std::string silent, quoted;
  for (size_t i = 0; i < names.size(); ++i)
    if (!hosts[i]) silent += (silent.empty() ? "" : ", ") + names[i];
  for (size_t begin = 0; begin < said.size();) {
    const size_t end = std::min(said.find('\n', begin), said.size());
    const auto line = said.substr(begin, end - begin);
    if (!backend.is_noise(line)) quoted += "\n  | " + line;
    begin = end + 1;
  }
  fail(ErrorCode::io, "no answer from {}. Does `ssh {} true` work without a password, and is {} there?{}",
       silent, names.front(), "the same program in the same place",
       quoted.empty() ? "" : fmt::format("\n  what {} said:{}", backend.name(), quoted));
}

}  // namespace

std::vector<Host> gather_hosts(const std::vector<std::string>& names, const backends::Backend& backend,
                               const std::vector<std::string>& program,
                               const std::vector<std::string>& exported) {
  std::vector<backends::HostShare> shares;
  for (const auto& name : names) shares.push_back({.name = name, .ranks = 1});
  std::vector<std::optional<Host>> hosts(names.size());
  std::vector<std::string> own_names(names.size());
  size_t missing = names.size();
  const auto secret = process::make_secret();
  process::Switchboard board(
      process::Listener::Reach::other_hosts, secret,
      {.report =
           [&](auto& peer, const plan::Report& report) {
             if (const auto* hello = std::get_if<plan::Hello>(&report)) {
               if (hello->rank < 0 || hello->rank >= static_cast<int>(names.size()))
                 fail(ErrorCode::corrupt_data, "a stranger connected");
               peer.rank = hello->rank;
               own_names[static_cast<size_t>(peer.rank)] = hello->host;
             } else if (const auto* host = std::get_if<plan::HostReport>(&report)) {
               auto& place = hosts[static_cast<size_t>(peer.rank)];
               missing -= place ? 0 : 1;
               place = host_from(own_names[static_cast<size_t>(peer.rank)], *host);
             }
           },
       .lost = [](int, bool) {},
       .complaint = [](int rank, const std::string& why) { fail(ErrorCode::io, "host {}: {}", rank, why); }});

  auto all = exported;
  all.insert(all.end(), {"TRIREME_RUN_DIR", "TRIREME_SUPERVISOR", "TRIREME_SECRET"});
  const int output = ::memfd_create("hosts", MFD_CLOEXEC);
  const pid_t child =
      process::start_child({.command = backend.command_line(shares, program, all),
                            .environment = process::guard_environment(
                                [&](const std::string& name) { return backend.hides(name); },
                                {.run_dir = "", .secret = secret, .supervisor = board.addresses()}),
                            .out = output,
                            .err = output,
                            .death_signal = SIGTERM});
  const auto limit = Clock::now() + kLimit;
  bool ended = false;
  auto last_word = limit;
  while (missing && Clock::now() < last_word) {
    std::vector<pollfd> watched;
    board.add_to(watched);
    ::poll(watched.data(), watched.size(), 50);
    board.serve(watched, 0);
    if (!ended && ::waitpid(child, nullptr, WNOHANG) == child) {
      ended = true;
      last_word = std::min(limit, Clock::now() + 500ms);  // what is on its way still counts
    }
  }
  if (!ended && missing) ::kill(-child, SIGTERM);
  const auto patience = Clock::now() + (missing ? 1s : 5s);
  while (!ended && Clock::now() < patience) {
    ended = ::waitpid(child, nullptr, WNOHANG) == child;
    if (!ended) ::usleep(2000);
  }
  if (!ended) {
    ::kill(-child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  const auto said = text_of(output);
  ::close(output);
  if (missing) fail_with_silence(names, hosts, said, backend);
  std::vector<Host> found;
  for (auto& host : hosts) found.push_back(std::move(*host));
  return found;
}

int report_host(const Arguments&) {
  const auto env = plan::RankEnv::from_environment();
  if (env.supervisor.empty())
    fail(ErrorCode::invalid_config, "`trireme report-host` is started by `trireme run`, not by hand");
  auto supervisor = process::Connection::to(env.supervisor);
  const topology::SysFiles files;
  const auto machine = topology::discover(files);
  const auto settings = topology::Settings::of_this_process(files);
  plan::HostReport report;
  for (const auto& [name, value] : settings.all())
    if (is_of_interest(name)) report.settings[name] = {value.text, value.source};
  report.machine = files.record();
  report.free_port = process::free_port();
  supervisor.send(
      plan::encode(plan::Hello{env.rank, env.secret, machine.host, ::getpid(), process::boot_id()}));
  supervisor.send(plan::encode(report));
  const auto limit = Clock::now() + 10s;
  while (supervisor.backlog() && Clock::now() < limit) {
    pollfd watched{supervisor.fd(), POLLOUT, 0};
    ::poll(&watched, 1, 100);
    supervisor.flush();
  }
  return supervisor.backlog() ? 1 : 0;
}

}  // namespace trireme::commands
