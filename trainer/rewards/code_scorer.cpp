#include "trainer/rewards/code_scorer.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "trainer/sandbox/program_tests.h"

namespace trireme::rewards {
namespace {

constexpr int64_t kMostAtOnce = 8;

int64_t own_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? std::max(1, CPU_COUNT(&cores)) : 1;
}

class CodeScorer final : public Scorer {
 public:
  explicit CodeScorer(const RewardConfig& config) : config_(config), sandbox_(config.code.python) {
    limits_.time = std::chrono::milliseconds(static_cast<int64_t>(config.code.timeout_s * 1000));
    limits_.memory_mb = config.code.memory_limit_mb;
    const int64_t asked = config.code.max_concurrent;
    const int64_t threads = asked > 0 ? asked : std::min(own_cores(), kMostAtOnce);
    for (int64_t i = 0; i < threads; ++i) threads_.emplace_back([this] { judge_all(); });
  }

  ~CodeScorer() override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.clear();
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int64_t submit(Submission submission) override {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(next_, std::move(submission));
    changed_.notify_all();
    return next_++;
  }

  Score wait(int64_t ticket) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return judged_.contains(ticket); });
    auto judgement = judged_.extract(ticket).mapped();
    if (judgement.error) std::rethrow_exception(judgement.error);
    return std::move(judgement.score);
  }

  bool is_judged(int64_t ticket) override {
    const std::lock_guard lock(mutex_);
    return judged_.contains(ticket);
  }

 private:
  struct Judgement {
    Score score;
    std::exception_ptr error;
  };

  void judge_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
      if (is_over_) return;
      auto [ticket, submission] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      Judgement judgement;
      try {
        judgement.score = judge(submission);
      } catch (...) {
        judgement.error = std::current_exception();
      }
      lock.lock();
      judged_.emplace(ticket, std::move(judgement));
      changed_.notify_all();
    }
  }

  Score judge(const Submission& submission) const {
    const auto tests = sandbox::read_tests(submission.ground_truth);
    if (!tests.mistake.empty())
      fail(ErrorCode::invalid_config, "the tests of a problem of '{}' cannot be used: {}",
           submission.data_source, tests.mistake);
    Score score;
    const std::string source = sandbox::program_in(submission.response, score.has_format);
    const bool by_share = config_.code.scoring == "fraction";
    const auto results =
        sandbox::run_tests(sandbox_, source, tests, limits_, by_share ? config_.code.partial_tests : 1);
    score.correct = results.all_passed;
    score.has_format = score.has_format || score.correct;
    const double least = score.has_format ? config_.format_only : config_.wrong;
    score.value = score.correct ? config_.correct
                  : by_share    ? least + (config_.correct - least) * results.fraction()
                                : least;
    score.extras["tests_passed"] = results.fraction();
    score.extras["tests_timed_out"] = results.timed_out ? 1.0 : 0.0;
    return score;
  }

  const RewardConfig config_;
  const sandbox::Sandbox sandbox_;
  sandbox::Limits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int64_t, Submission>> waiting_;
  std::map<int64_t, Judgement> judged_;
  int64_t next_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Scorer> code_scorer(const RewardConfig& config) {
  return std::make_unique<CodeScorer>(config);
}

}  // namespace trireme::rewards
