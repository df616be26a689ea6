#include "trainer/rewards/scorer_pool.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme::rewards {

using nlohmann::json;

namespace {

constexpr int64_t kFutileStarts = 3;
constexpr double kAhead = 0.002;  // seconds of work that a process may have before it
constexpr size_t kMostAhead = 64;
constexpr auto kGrace = std::chrono::seconds(5);  // for a process that keeps time itself
constexpr size_t kTold = 20;                      // failures that are told in full

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string too_long(const PoolOptions& options) {
  return fmt::format("it took longer than {} s (reward.scorer.timeout_s)", options.timeout.count());
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

ScorerPool::ScorerPool(PoolOptions options, std::function<void()> sign_of_life)
    : options_(std::move(options)),
      sign_of_life_(std::move(sign_of_life)),
      seats_(static_cast<size_t>(options_.num_processes)) {
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) fail(ErrorCode::io, "no eventfd for the scorers: {}", std::strerror(errno));
  for (size_t i = 0; i < seats_.size(); ++i) {
    seats_[i].name = fmt::format("scorer {}", i);
    start(seats_[i]);
  }
  thread_ = std::thread([this] { run(); });
}

ScorerPool::~ScorerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
  seats_.clear();
  ::close(wake_);
}

// ---- Whoever hands in

int64_t ScorerPool::submit(std::string request) {
  int64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = next_ticket_++;
    // {"id":7, and then the rest of the object
    waiting_.push_back({ticket, fmt::format("{{\"id\":{},{}", ticket, request.substr(1)), 0, {}});
  }
  wake();
  return ticket;
}

Outcome ScorerPool::wait(int64_t ticket) {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return settled_.contains(ticket) || given_up_; });
  if (const auto place = settled_.find(ticket); place != settled_.end())
    return settled_.extract(place).mapped();
  throw Error(ErrorCode::io, *given_up_);
}

bool ScorerPool::is_judged(int64_t ticket) {
  const std::lock_guard lock(mutex_);
  return settled_.contains(ticket) || given_up_;
}

void ScorerPool::wait_until_ready() {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return any_ready_ || given_up_; });
  if (given_up_) throw Error(ErrorCode::io, *given_up_);
}

void ScorerPool::wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  while (!changed_.wait_for(lock, std::chrono::seconds(1), done))
    if (sign_of_life_) sign_of_life_();
}

ScorerStats ScorerPool::take_stats() {
  const std::lock_guard lock(mutex_);
  return std::exchange(stats_, {});
}

void ScorerPool::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

// ---- The thread

void ScorerPool::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || given_up_) return;
    }
    hand_out();
    wait_for_events();
    for (Seat& seat : seats_) {
      if (!seat.process) continue;
      hear(seat);
      if (seat.process) check_time(seat);
    }
  }
}

void ScorerPool::wait_for_events() {
  std::vector<pollfd> events{{wake_, POLLIN, 0}};
  for (const Seat& seat : seats_) {
    if (!seat.process) continue;
    const ScorerProcess& process = *seat.process;
    events.push_back({process.output(), POLLIN, 0});
    events.push_back({process.errors(), POLLIN, 0});
    if (process.has_unsent()) events.push_back({process.input(), POLLOUT, 0});
  }
  // Ends and time limits are looked at now and then.
  ::poll(events.data(), events.size(), 50);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(wake_, &count, sizeof count);
}

void ScorerPool::start(Seat& seat) {
  seat.ready = !options_.says_ready;
  seat.concurrent = false;
  seat.seconds_each = -1.0;
  seat.answers = 0;
  seat.process = std::make_unique<ScorerProcess>(options_.process, seat.name);
  seat.started = seat.last_answer = Clock::now();
  if (seat.ready) {
    const std::lock_guard lock(mutex_);
    any_ready_ = true;
  }
}

size_t ScorerPool::window(const Seat& seat) const {
  if (seat.concurrent) return static_cast<size_t>(options_.max_concurrent);
  if (seat.seconds_each < 0) return 1;
  return static_cast<size_t>(std::clamp(kAhead / std::max(seat.seconds_each, 1e-6), 1.0, double{kMostAhead}));
}

bool ScorerPool::takes(const Seat& seat, const Task& task) const {
  if (!seat.process || !seat.ready || seat.under_way.size() >= window(seat)) return false;
  return seat.under_way.empty() || (!task.alone && !seat.under_way.front().alone);
}

// To whoever has the fewest before him, as long as there is room.
void ScorerPool::hand_out() {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) {
    Seat* next = nullptr;
    for (Seat& seat : seats_)
      if (takes(seat, waiting_.front()) && (!next || seat.under_way.size() < next->under_way.size()))
        next = &seat;
    if (!next) break;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    task.sent = Clock::now();
    next->process->write(task.request);
    next->under_way.push_back(std::move(task));
  }
  for (Seat& seat : seats_)
    if (seat.process) seat.process->flush();
}

void ScorerPool::hear(Seat& seat) {
  seat.process->read_errors();
  for (const std::string& line : seat.process->read_answers()) {
    take_answer(seat, line);
    if (!seat.process) return;
  }
  if (!seat.process->has_ended() && seat.process->output() >= 0) return;
  seat.process->kill();  // one that closes its output without ending is of no use
  seat.process->read_errors();
  for (const std::string& line : seat.process->read_answers()) {
    take_answer(seat, line);
    if (!seat.process) return;
  }
  const bool had_work = !seat.under_way.empty();
  if (had_work) {
    {
      const std::lock_guard lock(mutex_);
      ++stats_.ended_processes;
    }
    blame(seat, fmt::format("the process that ran it {}", seat.process->end()), seat.process->last_words());
  }
  replace(seat, had_work, seat.process->end());
}

void ScorerPool::take_answer(Seat& seat, const std::string& line) {
  const json answer = json::parse(line, nullptr, false);
  if (answer.is_object() && !seat.ready) {
    if (const auto failure = answer.find("failed"); failure != answer.end())
      return give_up(fmt::format("the reward function cannot be loaded:\n{}",
                                 failure->is_string() ? failure->get<std::string>() : failure->dump()));
    if (answer.contains("ready")) {
      seat.ready = true;
      seat.concurrent = answer.value("concurrent", false);
      const std::lock_guard lock(mutex_);
      any_ready_ = true;
      changed_.notify_all();
      return;
    }
  }
  const auto id = answer.is_object() ? answer.find("id") : answer.end();
  const auto place = answer.is_object() && id != answer.end() && id->is_number_integer()
                         ? std::ranges::find(seat.under_way, id->get<int64_t>(), &Task::ticket)
                         : seat.under_way.end();
  if (place == seat.under_way.end()) {
    if (told_.size() < kTold && told_.insert(seat.name + line).second)
      log::warn("{} says what is no answer: {}", seat.name, line.substr(0, 200));
    return;
  }
  Task task = std::move(*place);
  seat.under_way.erase(place);
  const auto now = Clock::now();
  const double took = seconds(now - std::max(task.sent, seat.last_answer));
  seat.seconds_each = seat.seconds_each < 0 ? took : 0.8 * seat.seconds_each + 0.2 * took;
  seat.last_answer = now;
  ++seat.answers;
  seat.futile_starts = 0;

  const auto text = [&](const char* name) {
    const auto value = answer.find(name);
    return value == answer.end() ? "" : value->is_string() ? value->get<std::string>() : value->dump();
  };
  if (answer.value("timeout", false)) {
    {
      const std::lock_guard lock(mutex_);
      ++stats_.timeouts;
    }
    failed(std::move(task), too_long(options_), "");
  } else if (answer.value("no_memory", false)) {
    // Its process ends with this. What others left behind there is not this call's fault.
    seat.ready = false;
    {
      const std::lock_guard lock(mutex_);
      ++stats_.ended_processes;
      for (; !seat.under_way.empty(); seat.under_way.pop_back())
        waiting_.push_front(std::move(seat.under_way.back()));
      if (seat.answers > 1) return waiting_.push_back(std::move(task));
    }
    failed(std::move(task), text("error"), text("traceback"));
  } else if (answer.contains("error")) {
    {
      const std::lock_guard lock(mutex_);
      ++stats_.errors;
    }
    failed(std::move(task), text("error"), text("traceback"));
  } else if (auto outcome = outcome_of(answer)) {
    settle(std::move(task), std::move(*outcome));
  } else {
    {
      const std::lock_guard lock(mutex_);
      ++stats_.errors;
    }
    failed(std::move(task), fmt::format("its answer has no score: {}", line.substr(0, 200)), "");
  }
}

void ScorerPool::check_time(Seat& seat) {
  const auto now = Clock::now();
  if (!seat.ready) {
    if (now - seat.started > options_.start_timeout)
      give_up(fmt::format(
          "{} was not ready after {} s (reward.scorer.start_timeout_s){}", seat.name,
          options_.start_timeout.count(),
          seat.process->last_words().empty() ? "" : "; it printed\n" + seat.process->last_words()));
    return;
  }
  if (seat.under_way.empty()) return;
  const Task& first = seat.under_way.front();
  // One that takes several at once keeps time itself, unless it is stuck as a whole.
  const auto begin = seat.concurrent ? first.sent : std::max(first.sent, seat.last_answer);
  const auto grace = std::min<std::chrono::duration<double>>(options_.timeout, kGrace);
  if (now - begin <= options_.timeout + grace * (seat.concurrent ? 1 : 0)) return;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.timeouts;
  }
  seat.process->kill();
  blame(seat, too_long(options_), "");
  replace(seat, true, "");
}

/// A process is stuck or gone, with calls under way: the first of them is at fault where they are made in
/// turn. Where they run side by side, all are suspects, unless there is but one. The rest goes to others.
void ScorerPool::blame(Seat& seat, const std::string& what, const std::string& detail) {
  if (!seat.concurrent || seat.under_way.size() == 1) {
    Task task = std::move(seat.under_way.front());
    seat.under_way.pop_front();
    failed(std::move(task), what, detail);
  } else {
    for (Task& task : seat.under_way) task.alone = true;
  }
}

void ScorerPool::replace(Seat& seat, bool had_work, const std::string& how) {
  const std::string words = seat.process->last_words();
  {
    const std::lock_guard lock(mutex_);
    for (; !seat.under_way.empty(); seat.under_way.pop_back())
      waiting_.push_front(std::move(seat.under_way.back()));
  }
  seat.process.reset();
  if (!had_work && ++seat.futile_starts >= kFutileStarts)
    return give_up(fmt::format("{} {} before it judged anything, {} times in a row{}", seat.name, how,
                               kFutileStarts, words.empty() ? "" : "; it printed\n" + words));
  try {
    start(seat);
  } catch (const Error& error) {
    give_up(error.message());
  }
}

void ScorerPool::settle(Task task, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  ++stats_.scores;
  settled_[task.ticket] = std::move(outcome);
  changed_.notify_all();
}

// Each kind of failure is told once; after that it is counted.
void ScorerPool::failed(Task task, const std::string& what, const std::string& detail) {
  if (told_.size() < kTold && told_.insert(first_line(what)).second)
    log::warn("the reward function failed: {}{}{}", what, detail.empty() ? "" : "\n", detail);
  if (++task.failures > options_.retries) return settle(std::move(task), {.failure = what, .attempts = task.failures});
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
}

void ScorerPool::give_up(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!given_up_) given_up_ = why;
  changed_.notify_all();
}

}  // namespace trireme::rewards
