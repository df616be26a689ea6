#include "launcher/process/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "launcher/process/child.h"
#include "launcher/process/clock.h"
#include "launcher/process/connection.h"
#include "launcher/process/enlist.h"
#include "launcher/process/kernel_log.h"
#include "launcher/process/nccl_ras.h"
#include "launcher/process/rank_log.h"
#include "launcher/process/rank_settings.h"
#include "launcher/process/signal_queue.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/plan/launch_plan.h"
#include "runtime/plan/rank_env.h"
#include "runtime/plan/rank_report.h"

namespace trireme::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kStateEvery = 500ms;
constexpr auto kSilence = 10s;        // of the supervisor, until it counts as lost
constexpr auto kSilenceOfHosts = 3s;  // where it may be on another host
constexpr auto kKillLimit = 3s;       // for SIGKILL to end a process
constexpr size_t kFailureLines = 20;
constexpr auto kGraceOnOrder = 5s;  // between SIGTERM and SIGKILL
constexpr auto kGraceOnLoss = 1s;
constexpr auto kGraceOnSignal = 300ms;  // mpirun kills the guard one second after its SIGTERM
constexpr size_t kBacklog = 8 << 20;    // bytes for the supervisor, beyond which the rank has to wait
constexpr size_t kLongestOrder = 4096;

class Guard {
 public:
  Guard(plan::RankEnv env, plan::LaunchPlan plan, Connection supervisor)
      : env_(std::move(env)),
        plan_(std::move(plan)),
        silence_(plan_.ranks.back().node > 0 ? kSilenceOfHosts : kSilence),
        signals_{SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2},
        page_(plan::RankPage::create_inherited()),
        supervisor_(std::move(supervisor)),
        log_(env_.run_dir, env_.rank, plan_.attempt) {}

  int run(const std::vector<std::string>& orders) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    try {
      start_rank();
    } catch (const Error& error) {
      page_.set_error(error.code(), error.message());
      finish(127 << 8);
    }
    for (const auto& order : orders) obey(plan::decode_order(order));
    while (!may_leave()) turn();
    supervisor_.flush();
    if (!left_) end_daemon();
    return status_for_mpirun();
  }

 private:
  const plan::RankPlan& my_plan() const { return plan_.ranks.at(env_.rank); }

  void start_rank() {
    std::array<int, 2> out{}, err{};
    if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0)
      fail(ErrorCode::io, "cannot make a pipe: {}", std::strerror(errno));
    output_ = {out[0], err[0]};
    for (const int fd : output_) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    const auto close_ends = [&] {
      ::close(out[1]);
      ::close(err[1]);
    };
    try {
      rank_ = start_child({.command = plan_.program,
                           .environment = rank_environment(plan_, env_, page_.path()),
                           .out = out[1],
                           .err = err[1],
                           .death_signal = SIGKILL,
                           .blocked_signals = plan_.holds_stop ? std::vector{SIGTERM, SIGUSR1}
                                                               : std::vector<int>{},
                           .cpus = my_plan().cpus,
                           .memory_node = my_plan().memory_node});
    } catch (...) {
      close_ends();
      throw;
    }
    close_ends();
  }

  bool may_leave() const { return (ended_ || !stuck_.empty()) && (left_ || !supervisor_.is_open()); }

  int status_for_mpirun() const {
    if (left_) return 0;
    if (!ended_) return 1;
    if (WIFSIGNALED(*ended_)) return 128 + WTERMSIG(*ended_);
    const int status = WEXITSTATUS(*ended_);
    return status == static_cast<int>(ExitStatus::checkpointed) ? 0 : status;
  }

  void turn() {
    std::array<pollfd, 5> watched{{{signals_.fd(), POLLIN, 0},
                                   {supervisor_.fd(), POLLIN, 0},
                                   {-1, POLLIN, 0},
                                   {-1, POLLIN, 0},
                                   {nccl_ ? nccl_->fd() : -1, POLLIN, 0}}};
    if (supervisor_.backlog()) watched[1].events |= POLLOUT;
    // A supervisor that does not keep up slows the rank down instead of filling our memory.
    if (supervisor_.backlog() < kBacklog)
      for (int i = 0; i < 2; ++i) watched[2 + i].fd = output_[i];
    auto next = std::min(next_state_, last_heard_ + silence_);
    if (nccl_) next = std::min(next, nccl_->deadline());
    for (const auto& deadline : {term_at_, kill_at_, stuck_at_})
      if (deadline) next = std::min(next, *deadline);
    ::poll(watched.data(), watched.size(), milliseconds_until(next));

    if (watched[1].revents) hear();
    for (int i = 0; i < 2; ++i)
      if (watched[2 + i].revents) pass_on(i);
    if (nccl_ && nccl_->receive()) tell_diagnosis();
    while (const auto signal = signals_.next()) on_signal(*signal);
    check_deadlines();
  }

  void hear() {
    supervisor_.flush();
    supervisor_.receive(kLongestOrder, [&](const std::string& line) {
      last_heard_ = Clock::now();
      obey(plan::decode_order(line));
    });
    if (!supervisor_.is_open()) end_rank(kGraceOnLoss);
  }

  void obey(plan::Order order) {
    switch (order) {
      case plan::Order::beat:
        break;
      case plan::Order::stop:
        signal_rank(SIGTERM);
        break;
      case plan::Order::end:
        end_rank(kGraceOnOrder);
        break;
      case plan::Order::kill:
        end_rank(0ms);
        break;
      case plan::Order::pause:
        paused_ = true;
        signal_rank(SIGSTOP);
        break;
      case plan::Order::resume:
        paused_ = false;
        signal_rank(SIGCONT);
        break;
      case plan::Order::leave:
        left_ = true;
        break;
      case plan::Order::ask:
        if (!nccl_) nccl_.emplace(environment("NCCL_RAS_ADDR"));
        break;
    }
  }

  static std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
  }

  void tell_diagnosis() {
    supervisor_.send(plan::encode(plan::Diagnosis{nccl_->findings()}));
    nccl_.reset();
  }

  void on_signal(int signal) {
    switch (signal) {
      case SIGCHLD:
        reap();
        break;
      case SIGUSR1:
      case SIGUSR2:
        signal_rank(signal);
        break;
      default:
        if (is_slurm_task()) {  // scancel, or the time limit: there is time for a checkpoint
          signal_rank(SIGTERM);
          break;
        }
        // mpirun ends the job: the rank that called MPI_Abort gets a moment to end by itself, with its
        // own status, before it looks like a victim.
        if (!term_at_ && !kill_at_) term_at_ = Clock::now() + kGraceOnSignal;
    }
  }

  void signal_rank(int signal) {
    if (rank_ > 0 && !ended_) ::kill(-rank_, signal);
  }

  // A task of srun's, and not the child of one of mpirun's daemons in a Slurm job.
  static bool is_slurm_task() { return std::getenv("SLURM_STEP_ID") && !std::getenv("OMPI_COMM_WORLD_RANK"); }

  // Now SIGTERM, SIGKILL after the grace; an earlier SIGKILL stands.
  void end_rank(Clock::duration grace) {
    if (ended_) return;
    told_to_end_ = true;
    term_at_.reset();
    signal_rank(SIGTERM);
    signal_rank(SIGCONT);
    const auto at = Clock::now() + grace;
    if (!kill_at_ || at < *kill_at_) kill_at_ = at;
  }

  void check_deadlines() {
    const auto now = Clock::now();
    if (term_at_ && now >= *term_at_) end_rank(kGraceOnSignal);
    if (kill_at_ && now >= *kill_at_ && !ended_) {
      kill_at_.reset();
      signal_rank(SIGKILL);
      stuck_at_ = now + kKillLimit;
    }
    if (stuck_at_ && now >= *stuck_at_ && !ended_) {
      stuck_at_.reset();
      stuck_ = fmt::format("process {} does not end on SIGKILL ({})", rank_, process_state(rank_));
      next_state_ = now;
    }
    if (paused_) last_heard_ = now;
    if (now >= last_heard_ + silence_) {
      supervisor_.close();
      last_heard_ = now;
      end_rank(kGraceOnLoss);
    }
    if (now >= next_state_) {
      next_state_ = now + kStateEvery;
      if (!ended_) report_state();
    }
  }

  void report_state() {
    supervisor_.send(plan::encode(plan::State{page_.read(), now_ns(), stopped_ && !paused_, stuck_}));
  }

  void reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
      if (pid == rank_ && (WIFSTOPPED(status) || WIFCONTINUED(status))) {
        stopped_ = WIFSTOPPED(status);
        if (!paused_) report_state();
        continue;
      }
      if (pid == rank_) {
        ended_ns_ = now_ns();
        kill_descendants(rank_);
        drain();
        finish(status);
        return;
      }
    }
  }

  // mpirun's daemon on this host does not notice for a long time that it is cut off. Ours to end, since we
  // are the only ones here who know.
  void end_daemon() const {
    const pid_t parent = ::getppid();
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/comm", parent)), name);
    if (name != "orted" && name != "prted") return;
    ::kill(parent, SIGTERM);
    const auto limit = Clock::now() + 1s;
    while (::getppid() == parent && Clock::now() < limit) ::usleep(10'000);
    if (::getppid() == parent) ::kill(parent, SIGKILL);
  }

  void finish(int wait_status) {
    ended_ = wait_status;
    term_at_.reset();
    kill_at_.reset();
    stuck_at_.reset();
    const bool signaled = WIFSIGNALED(wait_status);
    plan::Exit exit{.signaled = signaled,
                    .status = signaled ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status),
                    .ended_by_guard = told_to_end_,
                    .at_ns = ended_ns_ ? ended_ns_ : now_ns(),
                    .page = page_.read(),
                    .now_ns = now_ns(),
                    .last_lines = {},
                    .kernel = {}};
    if (wait_status != 0) {
      exit.last_lines = last_lines(rank_log_path(env_.run_dir, env_.rank), kFailureLines);
      exit.kernel = kernel_findings_since(began_ns_);
    }
    supervisor_.send(plan::encode(exit));
  }

  // What the rank has written and we have not read yet. Nobody holds the other ends any more, so they say
  // when all is read; the deadline is for one that was handed to a process which is not ours, and moves with
  // every byte: a machine under load may take long to hand over what there is.
  void drain() {
    const auto limit = Clock::now() + 10s;
    auto deadline = Clock::now() + 1s;
    while ((output_[0] >= 0 || output_[1] >= 0) && Clock::now() < std::min(deadline, limit)) {
      std::array<pollfd, 2> ends{{{output_[0], POLLIN, 0}, {output_[1], POLLIN, 0}}};
      ::poll(ends.data(), ends.size(), milliseconds_until(deadline));
      for (int i = 0; i < 2; ++i)
        if (ends[i].revents) {
          pass_on(i);
          deadline = Clock::now() + 1s;
        }
    }
    for (int i = 0; i < 2; ++i) report_lines(i, log_.rest(i));
  }

  void pass_on(int stream) {
    std::array<char, 64 * 1024> data;
    const ssize_t size = ::read(output_[stream], data.data(), data.size());
    if (size > 0) {
      report_lines(stream, log_.add(stream, data.data(), static_cast<size_t>(size)));
    } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
      ::close(output_[stream]);
      output_[stream] = -1;
    }
  }

  // Standard output of rank 0 is the run's; that of other ranks stays in their logs.
  void report_lines(int stream, std::vector<std::string> lines) {
    if (lines.empty() || (stream == 0 && env_.rank != 0)) return;
    supervisor_.send(plan::encode(plan::Output{stream == 1, std::move(lines)}));
  }

  plan::RankEnv env_;
  plan::LaunchPlan plan_;
  Clock::duration silence_;  // of the supervisor, until it counts as lost
  SignalQueue signals_;
  plan::RankPage page_;
  Connection supervisor_;
  RankLog log_;
  std::array<int, 2> output_{-1, -1};  // our ends of the rank's standard output and error
  pid_t rank_ = -1;
  std::optional<int> ended_;  // wait status
  int64_t began_ns_ = now_ns(), ended_ns_ = 0;
  bool told_to_end_ = false, left_ = false, paused_ = false, stopped_ = false;
  std::string stuck_;  // why SIGKILL does not help
  std::optional<RasQuery> nccl_;
  Clock::time_point next_state_ = Clock::now(), last_heard_ = Clock::now();
  std::optional<Clock::time_point> term_at_, kill_at_, stuck_at_;
};

}  // namespace

int guard_rank() {
  auto enlisted = enlist();
  return Guard(std::move(enlisted.env), std::move(enlisted.plan), std::move(enlisted.supervisor))
      .run(enlisted.orders);
}

}  // namespace trireme::process
