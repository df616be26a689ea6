#include "launcher/process/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "launcher/process/child.h"
#include "launcher/process/patience.h"
#include "launcher/process/rank_log.h"
#include "launcher/process/rank_settings.h"
#include "launcher/process/switchboard.h"
#include "runtime/base/error.h"
#include "runtime/plan/rank_report.h"

namespace trireme::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeatEvery = 500ms;
constexpr auto kSilence = 10s;           // of a guard, until it counts as lost
constexpr auto kSilenceOfHosts = 3s;     // where it may be on another host
constexpr auto kVictimWait = 2s;         // for the cause, when a rank has ended because of another
constexpr auto kVictimWaitOfHosts = 5s;  // which may be a host that falls silent
constexpr auto kEndLimit = 9s;           // guards give SIGTERM 5 s, then SIGKILL, then report
constexpr auto kAskLimit = 4s;           // for NCCL's opinion of a stall
constexpr auto kLeaveLimit = 5s;         // for mpirun to end when all guards have left

class Supervisor {
 public:
  Supervisor(const Job& job, const backends::Backend& backend, console::Console& console,
             SignalQueue& signals)
      : job_(job),
        backend_(backend),
        console_(console),
        signals_(signals),
        several_hosts_(job.plan.ranks.back().node > 0),
        secret_(make_secret()),
        board_(several_hosts_ ? Listener::Reach::other_hosts : Listener::Reach::this_host, secret_,
               {.report = [this](auto& peer, plan::Report report) { understand(peer, std::move(report)); },
                .lost = [this](int rank, bool silent) { lose(rank, silent); },
                .complaint =
                    [this](int rank, const std::string& message) {
                      console_.err(fmt::format("trireme: rank {}: {}", rank, message));
                    }}),
        ranks_(job.plan.ranks.size()),
        patience_(ranks_.size(), job.stall_timeout, Clock::now()) {
    for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].host = job.plan.ranks[i].host;
  }

  Outcome run() {
    // What a killed guard or mpirun leaves behind becomes our child, so that we can end it.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    start();
    while (state_ != State::done) turn();
    kill_descendants(0);
    return outcome_of({.ranks = ranks_,
                       .stop_signal = stop_signal_,
                       .killed = killed_,
                       .timed_out = timed_out_,
                       .trouble = trouble_,
                       .run_dir = job_.plan.run_dir,
                       .how_to_resume = job_.how_to_resume,
                       .backend_log = backend_log(),
                       .log_offset = log_offset_},
                      backend_);
  }

 private:
  // ending: told to end because of a failure or a second signal. leaving: all ranks are gone.
  enum class State { running, stopping, ending, leaving, done };

  std::string backend_log() const { return job_.plan.run_dir + "/logs/" + backend_.name() + ".log"; }

  void start() {
    const int log = ::open(backend_log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0) fail(ErrorCode::io, "cannot write {}: {}", backend_log(), std::strerror(errno));
    log_offset_ = ::lseek(log, 0, SEEK_END);
    auto exported = job_.exported;
    exported.insert(exported.end(), {"TRIREME_RUN_DIR", "TRIREME_SUPERVISOR", "TRIREME_SECRET"});
    const ChildOptions options{
        .command = backend_.command_line(job_.hosts, job_.guard, exported),
        .environment = guard_environment(
            [&](const std::string& name) { return backend_.hides(name); },
            {.run_dir = job_.plan.run_dir, .secret = secret_, .supervisor = board_.addresses()}),
        .out = log,
        .err = log,
        .death_signal = SIGTERM};
    try {
      child_ = start_child(options);
    } catch (const Error& error) {
      ::close(log);
      fail(error.code(), "{}. To do: {}.", error.message(), backend_.how_to_install());
    }
    ::close(log);
  }

  void turn() {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
    board_.add_to(watched);
    auto next = next_beat_;
    for (const auto& deadline : {deadline_, end_at_, suspect_until_})
      if (deadline) next = std::min(next, std::max(*deadline, Clock::now() + 1ms));
    ::poll(watched.data(), watched.size(), milliseconds_until(next));
    board_.serve(watched, 1);
    while (const auto signal = signals_.next()) on_signal(*signal);
    check_time();
    check_ends();
  }

  void understand(Switchboard::Peer& peer, plan::Report report) {
    if (const auto* hello = std::get_if<plan::Hello>(&report)) return greet(peer, *hello);
    const int rank = peer.rank;
    RankRecord& record = ranks_[static_cast<size_t>(rank)];
    if (const auto* output = std::get_if<plan::Output>(&report)) {
      for (const auto& line : output->lines)
        output->is_error ? console_.rank_err(rank, line) : console_.out(line);
    } else if (auto* state = std::get_if<plan::State>(&report)) {
      note_clock(peer, record, state->now_ns);
      patience_.note_page(record.page, state->page, Clock::now());
      note_stop(rank, state->stopped);
      record.page = std::move(state->page);
      record.stuck = std::move(state->stuck);
      if (rank == 0) show_progress();
    } else if (auto* diagnosis = std::get_if<plan::Diagnosis>(&report)) {
      if (suspect_) judge_suspect(std::move(diagnosis->lines));
    } else if (auto* exit = std::get_if<plan::Exit>(&report)) {
      note_clock(peer, record, exit->now_ns);
      record.page = exit->page;
      record.exit = std::move(*exit);
      patience_.note_stop(rank, false, Clock::now());
      patience_.note_progress(Clock::now());
      const bool good =
          !record.exit->signaled && (record.exit->status == 0 || record.exit->status == kCheckpointed);
      // A rank that knows of another's failure may be quicker than that other one, whose message counts.
      if (!good && !is_victim(record.page))
        end_because(fmt::format("rank {} on {} has failed", rank, record.host));
      if (!good && is_victim(record.page) && !end_at_)
        end_at_ = Clock::now() + (several_hosts_ ? kVictimWaitOfHosts : kVictimWait);
    }
  }

  void greet(Switchboard::Peer& peer, const plan::Hello& hello) {
    if (hello.rank < 0 || hello.rank >= num_ranks()) fail(ErrorCode::corrupt_data, "a stranger connected");
    const auto& planned = job_.plan.ranks[static_cast<size_t>(hello.rank)].host;
    if (hello.host != planned && !misplaced_)
      console_.err(fmt::format("trireme: {} put rank {} on {}; the plan says {}", backend_.name(), hello.rank,
                               hello.host, planned));
    misplaced_ = misplaced_ || hello.host != planned;
    peer.rank = hello.rank;
    ++reported_;
    ranks_[static_cast<size_t>(hello.rank)].clock_offset_ns = std::numeric_limits<int64_t>::max();
    const bool one_clock = hello.boot == boot_id();
    if (one_clock) ranks_[static_cast<size_t>(hello.rank)].clock_offset_ns = 0;
    std::error_code error;
    const auto program = [&](const std::string& pid) {
      return std::filesystem::read_symlink("/proc/" + pid + "/exe", error).string();
    };
    // Another host's, or another container's, numbers are not ours.
    if (one_clock && program(std::to_string(hello.guard_pid)) == program("self"))
      peer.guard_pid = hello.guard_pid;
    peer.connection.send(plan::encode(plan::Start{plan_text_, job_.config}));
    if (state_ == State::ending) peer.connection.send(plan::encode(plan::Order::end));
    if (state_ == State::stopping) peer.connection.send(plan::encode(plan::Order::stop));
  }

  // Between two hosts the least difference that was ever seen is nearest to that of their clocks.
  static void note_clock(const Switchboard::Peer&, RankRecord& record, int64_t their_ns) {
    if (record.clock_offset_ns != 0)
      record.clock_offset_ns = std::min(record.clock_offset_ns, now_ns() - their_ns);
  }

  void note_stop(int rank, bool stopped) {
    if (!patience_.note_stop(rank, stopped, Clock::now())) return;
    console_.err(
        fmt::format("trireme: rank {} on {} was stopped by a signal; the run ends unless it goes on "
                    "within {} s",
                    rank, ranks_[static_cast<size_t>(rank)].host, Patience::kStopped.count()));
  }

  void lose(int rank, bool silent) {
    RankRecord& record = ranks_[static_cast<size_t>(rank)];
    if (record.exit || record.lost_ns) return;
    // mpirun ends guards, too. Only those of a host that was losing some already are lost with it.
    const bool host_is_failing = std::any_of(
        ranks_.begin(), ranks_.end(), [&](const auto& r) { return r.host == record.host && r.lost_ns; });
    if (state_ >= State::ending && !silent && !host_is_failing) {
      record.went_with_others = true;
      return;
    }
    record.lost_ns = now_ns();
    record.fell_silent = silent;
    end_because(silent ? fmt::format("nothing is heard from rank {} on {}", rank, record.host)
                       : fmt::format("the guard of rank {} on {} is gone", rank, record.host));
  }

  void judge(int rank, const std::string& what) {
    RankRecord& record = ranks_[static_cast<size_t>(rank)];
    record.judged = what;
    record.judged_ns = now_ns();
    end_because(fmt::format("rank {} on {} {}", rank, record.host, what));
  }

  // Before it is ended: whoever waits in NCCL can still be asked, while the suspect may be unable to answer.
  void suspect(Patience::Overdue stall) {
    const bool uses_nccl = std::any_of(job_.plan.ranks.begin(), job_.plan.ranks.end(),
                                       [](const auto& planned) { return planned.gpu >= 0; });
    const int asked = *stall.rank == 0 && num_ranks() > 1 ? 1 : 0;
    suspect_ = std::move(stall);
    if (!uses_nccl && !std::getenv("NCCL_RAS_ADDR")) return judge_suspect({});
    suspect_until_ = Clock::now() + kAskLimit;
    board_.send_to(asked, plan::encode(plan::Order::ask));
  }

  void judge_suspect(std::vector<std::string> nccl) {
    const auto stall = *std::exchange(suspect_, std::nullopt);
    suspect_until_.reset();
    if (state_ >= State::ending) return;
    ranks_[static_cast<size_t>(*stall.rank)].nccl = std::move(nccl);
    judge(*stall.rank, stall.what);
  }

  void on_signal(int signal) {
    switch (signal) {
      case SIGCHLD: {
        int status = 0;
        if (child_ > 0 && ::waitpid(child_, &status, WNOHANG) == child_) {
          child_ = -1;
          // Reports that are already on their way come first.
          if (state_ < State::ending) deadline_ = Clock::now() + (reported_ ? 1s : 0s);
        }
        break;
      }
      case SIGTSTP:
        pause();
        break;
      default:
        ask_to_stop(signal);
    }
  }

  void ask_to_stop(int signal) {
    if (state_ == State::running) {
      stop_signal_ = signal;
      state_ = State::stopping;
      board_.send_all(plan::encode(plan::Order::stop));
      console_.err(signal == SIGINT ? "trireme: writing a checkpoint; Ctrl-C again to stop at once"
                                    : fmt::format("trireme: {}: writing a checkpoint, then stopping",
                                                  signal_name(signal)));
      show_progress();
    } else if (state_ <= State::ending && signal == SIGINT) {
      // Batch systems say the same in several ways: only Ctrl-C means that it shall end at once.
      killed_ = true;
      end_all();
      board_.send_all(plan::encode(plan::Order::kill));
    }
  }

  // The ranks stop first, then we do; whoever continues us continues them.
  void pause() {
    board_.send_all(plan::encode(plan::Order::pause));
    board_.flush();
    ::raise(SIGSTOP);
    board_.send_all(plan::encode(plan::Order::resume));
    patience_.note_pause(Clock::now());
    board_.forgive_silence();
    next_beat_ = Clock::now();
  }

  // The paragraph that tells all comes when the others have ended, some seconds later.
  void end_because(const std::string& why) {
    if (state_ < State::ending && num_ranks() > 1)
      console_.err(fmt::format("trireme: {}; ending the others", why));
    end_all();
  }

  void end_all() {
    end_at_.reset();
    if (state_ >= State::ending) return;
    state_ = State::ending;
    deadline_ = Clock::now() + kEndLimit;
    board_.send_all(plan::encode(plan::Order::end));
  }

  void check_time() {
    const auto now = Clock::now();
    if (now >= next_beat_) {
      next_beat_ = now + kBeatEvery;
      board_.send_all(plan::encode(plan::Order::beat));
      board_.find_silent(several_hosts_ ? Clock::duration(kSilenceOfHosts) : kSilence);
    }
    if (end_at_ && now >= *end_at_) end_all();
    if (state_ >= State::ending) return;
    if (suspect_until_ && now >= *suspect_until_) judge_suspect({});
    if (state_ >= State::ending || suspect_) return;
    const auto overdue = patience_.overdue(ranks_, reported_, now, now_ns());
    if (!overdue) return;
    if (overdue->is_stall) return suspect(*overdue);
    overdue->rank ? judge(*overdue->rank, overdue->what) : give_up(overdue->what);
  }

  void give_up(const std::string& why) {
    trouble_ = why;
    timed_out_ = true;
    end_all();
  }

  int num_ranks() const { return static_cast<int>(ranks_.size()); }

  void check_ends() {
    const bool all_gone = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& r) {
      return r.exit.has_value() || r.lost_ns.has_value() || r.went_with_others || !r.stuck.empty();
    });
    const bool late = deadline_ && Clock::now() >= *deadline_;
    if (state_ < State::ending && late && child_ < 0) {
      if (reported_ && !all_gone)
        trouble_ = fmt::format("{} ended while ranks were running", backend_.name());
      deadline_.reset();
      reported_ ? end_all() : leave();
    } else if (state_ < State::leaving && (all_gone || (state_ == State::ending && late))) {
      leave();
    }
    if (state_ == State::leaving && child_ < 0) state_ = State::done;
    if (state_ == State::leaving && deadline_ && Clock::now() >= *deadline_) {
      // Guards that still hold their connection are still there; mpirun goes last.
      for (const pid_t pid : board_.guards_of_this_host()) ::kill(pid, SIGKILL);
      ::kill(-child_, SIGKILL);
      deadline_ = Clock::now() + kLeaveLimit;
    }
  }

  void leave() {
    state_ = State::leaving;
    const bool lost =
        std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.lost_ns && !r.exit; });
    // A backend that waits for a host which is gone waits for long.
    deadline_ = Clock::now() + (lost && several_hosts_ ? 1s : kLeaveLimit);
    board_.send_all(plan::encode(plan::Order::leave));
  }

  void show_progress() {
    const auto& page = ranks_[0].page;
    console::Progress shown{
        .phase = page.phase, .stage = page.stage, .step = page.step, .total_steps = page.total_steps};
    shown.elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - started_);
    const auto changed = page.changed_ns + ranks_[0].clock_offset_ns;
    shown.left = console::time_left(page.step, page.total_steps,
                                    std::chrono::nanoseconds(page.changed_ns - page.phase_began_ns),
                                    std::chrono::nanoseconds(now_ns() - changed));
    if (state_ == State::stopping) shown.note = "stopping";
    console_.progress(std::move(shown));
  }

  static constexpr int kCheckpointed = static_cast<int>(ExitStatus::checkpointed);

  const Job& job_;
  const backends::Backend& backend_;
  console::Console& console_;
  SignalQueue& signals_;
  const bool several_hosts_;
  const std::string secret_, plan_text_ = plan::to_json(job_.plan);
  Switchboard board_;
  std::vector<RankRecord> ranks_;
  Patience patience_;
  pid_t child_ = -1;      // mpirun or srun
  off_t log_offset_ = 0;  // where this attempt's part of its log begins
  State state_ = State::running;
  int reported_ = 0;     // guards that have said hello
  int stop_signal_ = 0;  // the first signal that asked for a stop
  bool killed_ = false;  // a second one came
  bool timed_out_ = false, misplaced_ = false;
  std::string trouble_;  // what went wrong beside the ranks
  Clock::time_point started_ = Clock::now(), next_beat_ = Clock::now();
  std::optional<Clock::time_point> deadline_;  // of the present state
  std::optional<Clock::time_point> end_at_;
  std::optional<Patience::Overdue> suspect_;  // while NCCL is asked about it
  std::optional<Clock::time_point> suspect_until_;
};

}  // namespace

Outcome supervise(const Job& job, const backends::Backend& backend, console::Console& console,
                  SignalQueue& signals) {
  return Supervisor(job, backend, console, signals).run();
}

}  // namespace trireme::process
