#include "launcher/commands/attempts.h"

#include <poll.h>

#include <csignal>
#include <cstdio>

#include "launcher/console/console.h"
#include "launcher/process/clock.h"
#include "launcher/process/restart.h"
#include "launcher/process/run_status.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/config/load.h"

namespace trireme::commands {
namespace {

std::vector<backends::HostShare> shares_of(const GatheredHosts& gathered) {
  std::vector<backends::HostShare> shares;
  for (size_t i = 0; i < gathered.ranks.size(); ++i)
    shares.push_back({.name = gathered.names[i], .ranks = gathered.ranks[i]});
  return shares;
}

std::vector<std::string> guard_of(const Campaign& campaign) {
  return {campaign.where.program_folder() + "/trireme", "guard"};
}

std::vector<std::string> exported_to(const Campaign& campaign) {
  if (campaign.where.kind == Where::Kind::this_machine) return {};
  return campaign.where.exported;
}

process::Outcome attempt(const Campaign& campaign, int number, process::SignalQueue& signals) {
  const auto planned = plan_for(campaign.config, campaign.gathered);
  process::Job job{.plan = planned.plan,
                   .config = config::to_toml(campaign.config),
                   .hosts = shares_of(campaign.gathered),
                   .guard = guard_of(campaign),
                   .exported = exported_to(campaign),
                   .how_to_resume = campaign.how_to_resume,
                   .stall_timeout = campaign.stall_timeout};
  job.plan.program = campaign.program;
  job.plan.holds_stop = campaign.holds_stop;
  job.plan.run_dir = campaign.run_dir;
  job.plan.attempt = campaign.first_attempt + number;
  job.plan.restarts = number;
  job.plan.max_restarts = campaign.max_restarts;
  files::write_atomically(campaign.run_dir + "/config.toml", job.config);
  plan::save(job.plan, plan::launch_plan_path(campaign.run_dir));
  const auto backend = campaign.where.backend(planned.use_rdma);
  console::Console console(console::Style::of_this_process());
  return process::supervise(job, *backend, console, signals);
}

// Returns a signal that asks for an end meanwhile, or 0.
int wait_for(std::chrono::seconds time, process::SignalQueue& signals) {
  const auto end = process::Clock::now() + time;
  while (process::Clock::now() < end) {
    pollfd watched{signals.fd(), POLLIN, 0};
    ::poll(&watched, 1, process::milliseconds_until(end));
    while (const auto signal = signals.next())
      if (*signal != SIGCHLD && *signal != SIGTSTP) return *signal;
  }
  return 0;
}

void replace_lost(Campaign& campaign, const std::vector<std::string>& lost) {
  for (const auto& host : lost) {
    const bool replaced = replace_host(campaign.gathered, host);
    fmt::print(stderr, "trireme: {}\n",
               replaced ? fmt::format("{} is left out from here on; a spare host takes its place", host)
                        : fmt::format("there is no spare host for {}; it is tried again", host));
  }
}

}  // namespace

std::vector<std::string> command_of(const Campaign& campaign, bool use_rdma) {
  return campaign.where.backend(use_rdma)->command_line(shares_of(campaign.gathered), guard_of(campaign),
                                                        exported_to(campaign));
}

int run_attempts(Campaign& campaign) {
  process::SignalQueue signals{SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP};
  process::RestartPolicy policy(campaign.max_restarts);
  auto status = process::status_of_this_process();
  status.run_dir = campaign.run_dir;
  status.hosts = campaign.gathered.num_used();
  for (const int ranks : campaign.gathered.ranks) status.ranks += ranks;
  const auto tell = [&](const std::string& state) {
    status.state = state;
    process::save(status);
  };
  const auto end = [&](int exit_status) {
    status.exit_status = exit_status;
    tell("ended");
    return exit_status;
  };
  process::add_to_list({.run_dir = campaign.run_dir, .slurm_job = status.slurm_job});
  for (int number = 0;; ++number) {
    status.attempt = campaign.first_attempt + number;
    tell("running");
    const auto outcome = attempt(campaign, number, signals);
    status.message = outcome.text.substr(0, outcome.text.find('\n'));
    const auto decision = policy.decide(outcome);
    if (!outcome.text.empty()) fmt::print(stderr, "{}\n", outcome.text);
    if (!decision.why.empty()) fmt::print(stderr, "trireme: {}\n", decision.why);
    if (!decision.again) return end(outcome.status);
    tell("restarting");
    replace_lost(campaign, outcome.lost_hosts);
    std::fflush(stderr);
    if (const int signal = wait_for(decision.wait, signals)) {
      fmt::print(stderr, "trireme: stopped before the restart; to go on: {}\n", campaign.how_to_resume);
      return end(static_cast<int>(signal == SIGINT ? ExitStatus::interrupted : ExitStatus::checkpointed));
    }
  }
}

}  // namespace trireme::commands
