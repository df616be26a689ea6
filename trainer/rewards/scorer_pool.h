// Processes that judge responses side by side, and may crash, hang, leak or print without hurting the run.
//
// A thread of its own feeds them and hears them, so that handing in never waits. A process gets one response
// at a time until it has shown to be fast, then several ahead; one that takes functions of Python's async
// gets as many as it may have under way. What fails is tried again in turn; what fails for good is an outcome
// like any other. Where several were under way in a process that got stuck or died, each is tried alone. Results do not depend on which process judged what. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "trainer/rewards/outside_judge.h"
#include "trainer/rewards/scorer_process.h"

namespace trireme::rewards {

struct PoolOptions {
  ProcessOptions process;
  int64_t num_processes = 1;
  bool says_ready = false;  // its first line is {"ready": true, "concurrent": ...} or {"failed": reason}
  int64_t max_concurrent = 64;
  std::chrono::duration<double> timeout{60.0};         // of one response
  std::chrono::duration<double> start_timeout{300.0};  // until it says that it is ready
  int64_t retries = 1;
};

class ScorerPool final : public OutsideJudge {
 public:
  /// Starts the processes. Throws io if they cannot be started. `sign_of_life` is called once a second by
  /// whoever waits.
  explicit ScorerPool(PoolOptions options, std::function<void()> sign_of_life = {});
  /// Ends them, whatever they do.
  ~ScorerPool() override;

  int64_t submit(std::string request) override;
  Outcome wait(int64_t ticket) override;
  bool is_judged(int64_t ticket) override;
  void wait_until_ready() override;
  ScorerStats take_stats() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Task {
    int64_t ticket = 0;
    std::string request;
    int64_t failures = 0;
    bool alone = false;  // goes to a process that has nothing else under way, to see whether it is at fault
    Clock::time_point sent;
  };
  struct Seat {  // a process, and its successors
    std::string name;
    std::unique_ptr<ScorerProcess> process;  // null: none could be started
    bool ready = false, concurrent = false;
    Clock::time_point started, last_answer;
    double seconds_each = -1.0;  // of late; below 0: unknown
    std::deque<Task> under_way;
    int64_t answers = 0;        // of this process
    int64_t futile_starts = 0;  // in a row, of processes that ended before they had anything to do
  };

  void run();
  void wait_for_events();
  void start(Seat& seat);
  void hand_out();
  size_t window(const Seat& seat) const;
  void hear(Seat& seat);
  void take_answer(Seat& seat, const std::string& line);
  void check_time(Seat& seat);
  void blame(Seat& seat, const std::string& what, const std::string& detail);
  void replace(Seat& seat, bool had_work, const std::string& how);
  bool takes(const Seat& seat, const Task& task) const;
  void settle(Task task, Outcome outcome);
  void failed(Task task, const std::string& what, const std::string& detail);
  void give_up(const std::string& why);
  void wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  void wake();

  const PoolOptions options_;
  const std::function<void()> sign_of_life_;
  std::vector<Seat> seats_;  // the thread's own, as all that has no mutex
  std::set<std::string> told_;
  int wake_ = -1;  // eventfd

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  std::map<int64_t, Outcome> settled_;
  std::optional<std::string> given_up_;
  ScorerStats stats_;
  int64_t next_ticket_ = 0;
  bool any_ready_ = false, stop_ = false;

  std::thread thread_;
};

}  // namespace trireme::rewards
