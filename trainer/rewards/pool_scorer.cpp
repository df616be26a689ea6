#include "trainer/rewards/pool_scorer.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "trainer/rewards/http_judge.h"
#include "trainer/rewards/python_scorer.h"
#include "trainer/rewards/scorer_pool.h"

namespace trireme::rewards {
namespace {

using nlohmann::json;

int64_t num_cores() {
  cpu_set_t cpus;
  return ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

PoolOptions options_of(const RewardConfig& config) {
  const ScorerConfig& scorer = config.scorer;
  PoolOptions options;
  options.num_processes = scorer.num_workers > 0 ? scorer.num_workers : std::clamp<int64_t>(num_cores(), 1, 8);
  options.max_concurrent = scorer.max_concurrent;
  options.timeout = std::chrono::duration<double>(scorer.timeout_s);
  options.start_timeout = std::chrono::duration<double>(scorer.start_timeout_s);
  options.retries = scorer.retries;
  options.process.memory_limit_mb = scorer.memory_limit_mb;
  if (!config.command.empty()) {
    options.process.command = config.command;
    return options;
  }
  const FunctionConfig& function = config.function;
  const json kwargs = json::parse(function.kwargs, nullptr, false);
  if (!kwargs.is_object())
    fail(ErrorCode::invalid_config, "reward.function.kwargs: must be a JSON object such as {{\"strict\": true}}, found {}",
         function.kwargs);
  options.says_ready = true;
  options.process.environment = {std::string("TRIREME_SCORER=") + kPythonScorer};
  options.process.command = {function.python, "-c", "import os; exec(os.environ.pop('TRIREME_SCORER'))",
                             function.path,   function.name, kwargs.dump(), fmt::format("{}", scorer.timeout_s)};
  return options;
}

std::unique_ptr<OutsideJudge> make_judge(const RewardConfig& config, std::function<void()> sign_of_life) {
  if (!config.http.url.empty()) return http_judge(config.http, std::move(sign_of_life));
  return std::make_unique<ScorerPool>(options_of(config), std::move(sign_of_life));
}

class PoolScorer final : public Scorer {
 public:
  PoolScorer(const RewardConfig& config, ScorerOptions options)
      : config_(config), judge_(make_judge(config, std::move(options.sign_of_life))) {}

  int64_t submit(Submission submission) override { return judge_->submit(to_request(std::move(submission))); }
  Score wait(int64_t ticket) override { return to_score(judge_->wait(ticket)); }
  bool is_judged(int64_t ticket) override { return judge_->is_judged(ticket); }
  void wait_until_ready() override { judge_->wait_until_ready(); }

  ScorerStats take_stats() override {
    ScorerStats stats = judge_->take_stats();
    stats.defaults = std::exchange(defaults_, 0);
    return stats;
  }

 private:
  static std::string to_request(Submission submission) {
    json request{{"data_source", std::move(submission.data_source)},
                 {"solution_str", std::move(submission.response)},
                 {"ground_truth", std::move(submission.ground_truth)}};
    auto extra = submission.extra_info.empty() ? json::object() : json::parse(submission.extra_info, nullptr, false);
    request["extra_info"] = extra.is_discarded() ? json(std::move(submission.extra_info)) : std::move(extra);
    // A response cut off between two bytes of a character is text all the same.
    return request.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  Score to_score(Outcome outcome) {
    Score score;
    if (!outcome.failure.empty()) {
      if (config_.scorer.on_failure == "stop")
        fail(ErrorCode::io,
             "the reward {} failed {} times on one response: {}; reward.scorer.on_failure = \"default\" "
             "goes on with reward.scorer.default_score",
             config_.http.url.empty() ? "function" : "service", outcome.attempts, outcome.failure);
      score.value = config_.scorer.default_score;
      ++defaults_;
      return score;
    }
    const auto acc = outcome.extras.find("acc");
    score.value = outcome.score;
    score.correct = acc != outcome.extras.end() ? acc->second > 0.5 : outcome.score >= config_.correct;
    score.has_format = true;
    score.extras = std::move(outcome.extras);
    score.answer = std::move(outcome.answer);
    return score;
  }

  const RewardConfig config_;
  int64_t defaults_ = 0;
  std::unique_ptr<OutsideJudge> judge_;
};

}  // namespace

std::unique_ptr<Scorer> pool_scorer(const RewardConfig& config, ScorerOptions options) {
  return std::make_unique<PoolScorer>(config, std::move(options));
}

}  // namespace trireme::rewards
