// Whoever judges a run's responses: a rule in this process, processes of their own that run a user's code, or a
// service. Responses are handed in as they finish, and judged while others are still generated. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainer/rewards/journal.h"
#include "trainer/rewards/reward.h"
#include "trainer/rewards/reward_config.h"

namespace trireme::rewards {

/// What is to be judged.
struct Submission {
  std::string data_source;
  std::string response;
  std::string ground_truth;
  std::string extra_info;       // JSON; empty: none
  int64_t response_tokens = 0;  // its length
  JudgementKey key = {};        // names it in the journal
};

/// What happened since the last take_stats().
struct ScorerStats {
  int64_t scores = 0;
  int64_t errors = 0;           // attempts that ended in an error of the reward function
  int64_t timeouts = 0;         // attempts that took longer than reward.scorer.timeout_s
  int64_t ended_processes = 0;  // processes that ended in the middle of their work
  int64_t defaults = 0;         // responses that got reward.scorer.default_score
  int64_t replayed = 0;         // responses whose score was in the journal
};

class Scorer {
 public:
  virtual ~Scorer() = default;
  /// Hands in a response and returns its ticket; does not wait for the judgement.
  virtual int64_t submit(Submission submission) = 0;
  /// The judgement, once for each ticket; waits for it. Throws what the rule throws; io where a reward
  /// function failed for good and reward.scorer.on_failure = "stop".
  virtual Score wait(int64_t ticket) = 0;
  /// Whether wait() would return, or throw, at once. Of a ticket that was not waited for yet.
  virtual bool is_judged(int64_t ticket) = 0;
  Score score(Submission submission) { return wait(submit(std::move(submission))); }
  /// Whether all of it can start: waits for that. Throws io with the reason otherwise.
  virtual void wait_until_ready() {}
  virtual ScorerStats take_stats() { return {}; }
};

/// A rule, judging as it is handed in. `reward` is borrowed.
std::unique_ptr<Scorer> rule_scorer(const Reward& reward);

struct ScorerOptions {
  std::function<void()> sign_of_life = {};  // called now and then while one waits for others' code
  std::string journal = {};                 // folder; empty: none is kept
  std::string writer = "rank_0";            // this rank's name in it
};

/// What `config` asks for, with the components of the reward that have weights added; its processes start at
/// once, and are gone with it. `rule` is borrowed; it judges where the configuration names no code.
/// Throws invalid_config, or io if no process can be started.
std::unique_ptr<Scorer> make_scorer(const RewardConfig& config, const Reward& rule, ScorerOptions options = {});

/// Whether responses are judged by code that is not ours, so that any ground truth will do.
bool runs_user_code(const RewardConfig& config);

}  // namespace trireme::rewards
