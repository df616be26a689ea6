#include "launcher/process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <list>
#include <optional>

#include "launcher/process/child.h"
#include "launcher/process/clock.h"
#include "launcher/process/connection.h"
#include "launcher/process/failure_text.h"
#include "launcher/process/first_failure.h"
#include "launcher/process/rank_log.h"
#include "launcher/process/rank_settings.h"
#include "launcher/process/signal_queue.h"
#include "runtime/base/error.h"
#include "runtime/plan/rank_report.h"

namespace trireme::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeatEvery = 1s;
constexpr auto kStartLimit = 60s;   // until all guards have reported
constexpr auto kSilence = 10s;      // of a guard, until it counts as lost
constexpr auto kVictimWait = 2s;    // for the cause, when a rank has ended because of another
constexpr auto kEndLimit = 9s;      // guards give SIGTERM 5 s, then SIGKILL, then report
constexpr auto kLeaveLimit = 5s;    // for mpirun to end when all guards have left
constexpr auto kLonelyLimit = 60s;  // ranks that go on when another has ended, without any progress
constexpr size_t kLongestReport = 64 << 20;
constexpr size_t kLongestHello = 4096;

std::string make_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail(ErrorCode::io, "the system gives no random numbers: {}", std::strerror(errno));
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// A guard's connection; rank -1 until it has said who it is.
struct Peer {
  Connection connection;
  int rank = -1;
  pid_t guard_pid = 0;
  Clock::time_point last_heard = Clock::now();
};

class Supervisor {
 public:
  Supervisor(const Job& job, const backends::Backend& backend, console::Console& console)
      : job_(job),
        backend_(backend),
        console_(console),
        signals_{SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP},
        secret_(make_secret()),
        ranks_(job.plan.ranks.size()) {
    for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].host = job.plan.ranks[i].host;
  }

  int run() {
    // What a killed guard or mpirun leaves behind becomes our child, so that we can end it.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    start();
    while (state_ != State::done) turn();
    kill_descendants(0);
    return conclude();
  }

 private:
  // ending: told to end because of a failure or a second signal. leaving: all ranks are gone.
  enum class State { running, stopping, ending, leaving, done };

  std::string mpirun_log() const { return job_.plan.run_dir + "/logs/" + backend_.name() + ".log"; }

  void start() {
    const int log = ::open(mpirun_log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0) fail(ErrorCode::io, "cannot write {}: {}", mpirun_log(), std::strerror(errno));
    log_offset_ = ::lseek(log, 0, SEEK_END);
    const auto hides = [&](const std::string& name) {
      return backend_.hides(name) || name.starts_with("TRIREME_RANK") ||
             name.starts_with("TRIREME_NUM_RANKS") || name.starts_with("TRIREME_LOCAL_RANK") ||
             name == "TRIREME_RUN_DIR" || name == "TRIREME_SECRET" || name == "TRIREME_SUPERVISOR";
    };
    ChildOptions options{.command = backend_.command_line(job_.plan, job_.guard),
                         .environment = environment_without(
                             hides, {"TRIREME_RUN_DIR=" + job_.plan.run_dir, "TRIREME_SECRET=" + secret_,
                                     "TRIREME_SUPERVISOR=" + listener_.address()}),
                         .out = log,
                         .err = log,
                         .death_signal = SIGTERM};
    try {
      mpirun_ = start_child(options);
    } catch (const Error& error) {
      ::close(log);
      fail(error.code(), "{}. To do: {}.", error.message(), backend_.how_to_install());
    }
    ::close(log);
  }

  void turn() {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    for (const auto& peer : peers_) {
      const short send = peer.connection.backlog() ? POLLOUT : 0;
      watched.push_back({peer.connection.fd(), static_cast<short>(POLLIN | send), 0});
    }
    auto next = next_beat_;
    for (const auto& deadline : {deadline_, end_at_})
      if (deadline) next = std::min(next, std::max(*deadline, Clock::now() + 1ms));
    ::poll(watched.data(), watched.size(), milliseconds_until(next));

    size_t i = 2;
    for (auto& peer : peers_)
      if (watched[i++].revents) hear(peer);
    if (watched[1].revents)
      if (auto connection = listener_.accept(); connection.is_open())
        peers_.push_back({.connection = std::move(connection)});
    peers_.remove_if([](const Peer& peer) { return !peer.connection.is_open(); });
    while (const auto signal = signals_.next()) on_signal(*signal);
    check_time();
    check_ends();
  }

  void hear(Peer& peer) {
    peer.connection.flush();
    peer.connection.receive(peer.rank < 0 ? kLongestHello : kLongestReport, [&](const std::string& line) {
      try {
        understand(peer, plan::decode_report(line));
      } catch (const Error& error) {
        peer.connection.close();
        if (peer.rank >= 0) console_.err(fmt::format("trireme: rank {}: {}", peer.rank, error.message()));
      }
    });
    if (!peer.connection.is_open() && peer.rank >= 0) lose(peer.rank);
  }

  void understand(Peer& peer, plan::Report report) {
    peer.last_heard = Clock::now();
    if (const auto* hello = std::get_if<plan::Hello>(&report)) {
      const bool known = hello->secret == secret_ && hello->rank >= 0 && hello->rank < num_ranks();
      if (!known || peer.rank >= 0) fail(ErrorCode::corrupt_data, "a stranger connected");
      peer.rank = hello->rank;
      peer.guard_pid = hello->guard_pid;
      ++reported_;
      if (state_ == State::ending) peer.connection.send(plan::encode(plan::Order::end));
      if (state_ == State::stopping) peer.connection.send(plan::encode(plan::Order::stop));
      return;
    }
    if (peer.rank < 0) fail(ErrorCode::corrupt_data, "a stranger connected");
    RankRecord& record = ranks_[peer.rank];
    if (const auto* output = std::get_if<plan::Output>(&report)) {
      for (const auto& line : output->lines)
        output->is_error ? console_.rank_err(peer.rank, line) : console_.out(line);
    } else if (auto* state = std::get_if<plan::State>(&report)) {
      if (state->page.changed_ns != record.page.changed_ns ||
          collectives_begun(state->page) != collectives_begun(record.page))
        last_progress_ = Clock::now();
      record.page = std::move(state->page);
      if (peer.rank == 0) show_progress();
    } else if (auto* exit = std::get_if<plan::Exit>(&report)) {
      record.page = exit->page;
      record.exit = std::move(*exit);
      last_progress_ = Clock::now();
      const bool good =
          !record.exit->signaled && (record.exit->status == 0 || record.exit->status == kCheckpointed);
      // A rank that knows of another's failure may be quicker than that other one, whose message counts.
      const bool is_victim = record.page.has_error && record.page.error_code == ErrorCode::peer_failed;
      if (!good && !is_victim) end_all();
      if (!good && is_victim && !end_at_) end_at_ = Clock::now() + kVictimWait;
    }
  }

  static int64_t collectives_begun(const plan::RankPage::Snapshot& page) {
    int64_t total = 0;
    for (const auto& collective : page.collectives) total += collective.seq;
    return total;
  }

  void lose(int rank) {
    if (ranks_[rank].exit || ranks_[rank].lost_ns) return;
    ranks_[rank].lost_ns = now_ns();
    end_all();
  }

  void on_signal(int signal) {
    switch (signal) {
      case SIGCHLD: {
        int status = 0;
        if (mpirun_ > 0 && ::waitpid(mpirun_, &status, WNOHANG) == mpirun_) {
          mpirun_status_ = status;
          mpirun_ = -1;
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
      send_all(plan::Order::stop);
      console_.err(signal == SIGINT ? "trireme: writing a checkpoint; Ctrl-C again to stop at once"
                                    : fmt::format("trireme: {}: writing a checkpoint, then stopping",
                                                  signal_name(signal)));
      show_progress();
    } else if (state_ <= State::ending) {
      killed_ = true;
      end_all();
      send_all(plan::Order::kill);
    }
  }

  // The ranks stop first, then we do; whoever continues us continues them.
  void pause() {
    send_all(plan::Order::pause);
    for (auto& peer : peers_)
      for (int i = 0; i < 100 && peer.connection.backlog(); ++i, ::usleep(1000)) peer.connection.flush();
    ::raise(SIGSTOP);
    send_all(plan::Order::resume);
    last_progress_ = Clock::now();
    for (auto& peer : peers_) peer.last_heard = Clock::now();
    next_beat_ = Clock::now();
  }

  void end_all() {
    end_at_.reset();
    if (state_ >= State::ending) return;
    state_ = State::ending;
    deadline_ = Clock::now() + kEndLimit;
    send_all(plan::Order::end);
  }

  void send_all(plan::Order order) {
    for (auto& peer : peers_)
      if (peer.rank >= 0) peer.connection.send(plan::encode(order));
  }

  void check_time() {
    const auto now = Clock::now();
    if (now >= next_beat_) {
      next_beat_ = now + kBeatEvery;
      send_all(plan::Order::beat);
      for (auto& peer : peers_)
        if (peer.rank >= 0 && now > peer.last_heard + kSilence) lose(peer.rank);
    }
    if (end_at_ && now >= *end_at_) end_all();
    if (state_ < State::ending && reported_ < num_ranks() && now > started_ + kStartLimit) {
      trouble_ = fmt::format("{} of {} ranks did not start within {} s", num_ranks() - reported_, num_ranks(),
                             kStartLimit.count());
      timed_out_ = true;
      end_all();
    }
    if (state_ < State::ending && num_ended() > 0 && now > last_progress_ + kLonelyLimit) {
      trouble_ =
          fmt::format("{} of {} ranks have ended, and for {} s the others went on without any progress",
                      num_ended(), num_ranks(), kLonelyLimit.count());
      timed_out_ = true;
      end_all();
    }
  }

  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  int num_ended() const {
    return static_cast<int>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.exit.has_value(); }));
  }

  void check_ends() {
    const bool all_gone = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& r) {
      return r.exit.has_value() || r.lost_ns.has_value();
    });
    const bool late = deadline_ && Clock::now() >= *deadline_;
    if (state_ < State::ending && late && mpirun_ < 0) {
      if (reported_ && !all_gone)
        trouble_ = fmt::format("{} ended while ranks were running", backend_.name());
      deadline_.reset();
      reported_ ? end_all() : leave();
    } else if (state_ < State::leaving && (all_gone || (state_ == State::ending && late))) {
      leave();
    }
    if (state_ == State::leaving && mpirun_ < 0) state_ = State::done;
    if (state_ == State::leaving && deadline_ && Clock::now() >= *deadline_) {
      // Guards that still hold their connection are still there; mpirun goes last.
      for (const auto& peer : peers_)
        if (peer.guard_pid > 0) ::kill(peer.guard_pid, SIGKILL);
      ::kill(-mpirun_, SIGKILL);
      deadline_ = Clock::now() + kLeaveLimit;
    }
  }

  void leave() {
    state_ = State::leaving;
    deadline_ = Clock::now() + kLeaveLimit;
    send_all(plan::Order::leave);
  }

  void show_progress() {
    const auto& page = ranks_[0].page;
    console::Progress shown{
        .phase = page.phase, .stage = page.stage, .step = page.step, .total_steps = page.total_steps};
    shown.elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - started_);
    shown.left = console::time_left(page.step, page.total_steps,
                                    std::chrono::nanoseconds(page.changed_ns - page.phase_began_ns),
                                    std::chrono::nanoseconds(now_ns() - page.changed_ns));
    if (state_ == State::stopping) shown.note = "stopping";
    console_.progress(std::move(shown));
  }

  int conclude();

  static constexpr int kCheckpointed = static_cast<int>(ExitStatus::checkpointed);

  const Job& job_;
  const backends::Backend& backend_;
  console::Console& console_;
  SignalQueue signals_;
  Listener listener_;
  std::string secret_;
  std::vector<RankRecord> ranks_;
  std::list<Peer> peers_;
  pid_t mpirun_ = -1;
  int mpirun_status_ = 0;
  off_t log_offset_ = 0;  // where this attempt's part of mpirun's log begins
  State state_ = State::running;
  int reported_ = 0;     // guards that have said hello
  int stop_signal_ = 0;  // the first signal that asked for a stop
  bool killed_ = false;  // a second one came
  bool timed_out_ = false;
  std::string trouble_;  // what went wrong beside the ranks
  Clock::time_point started_ = Clock::now(), next_beat_ = Clock::now(), last_progress_ = Clock::now();
  std::optional<Clock::time_point> deadline_;  // of the present state
  std::optional<Clock::time_point> end_at_;
};

int Supervisor::conclude() {
  const auto failure = first_failure(ranks_, stop_signal_ != 0);
  const auto finish = [&](ExitStatus status, const std::string& text) {
    console_.finish();
    if (!text.empty()) fmt::print(stderr, "{}\n", text);
    return static_cast<int>(status);
  };
  if (failure) {
    const RankRecord& record = ranks_[failure->rank];
    finish(ExitStatus::failed,
           failure_text(*failure, record, num_ranks(), rank_log_path(job_.plan.run_dir, failure->rank)));
    return failure->status;
  }
  const bool all_good = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& r) {
    return r.exit && !r.exit->signaled && (r.exit->status == 0 || r.exit->status == kCheckpointed);
  });
  const bool checkpointed = all_good && std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) {
                              return r.exit->status == kCheckpointed;
                            });
  if (!all_good && stop_signal_ == 0) {
    if (trouble_.empty()) trouble_ = fmt::format("{} could not start the ranks", backend_.name());
    return finish(timed_out_ ? ExitStatus::timed_out : ExitStatus::failed,
                  trouble_text(trouble_, backend_, mpirun_log(), log_offset_));
  }
  std::string text;
  if (checkpointed)
    text = fmt::format("trireme: stopped after a checkpoint; to go on: {}", job_.how_to_resume);
  else if (!all_good)
    text = "trireme: stopped at once, without a checkpoint of the last steps";
  if (stop_signal_ == SIGINT || killed_ || !all_good) return finish(ExitStatus::interrupted, text);
  return finish(checkpointed ? ExitStatus::checkpointed : ExitStatus::ok, text);
}

}  // namespace

int supervise(const Job& job, const backends::Backend& backend, console::Console& console) {
  return Supervisor(job, backend, console).run();
}

}  // namespace trireme::process
