#include "trainer/rewards/journaled_scorer.h"

#include <map>
#include <optional>
#include <utility>

#include "trainer/rewards/journal.h"

namespace trireme::rewards {
namespace {

class JournaledScorer final : public Scorer {
 public:
  JournaledScorer(std::unique_ptr<Scorer> judge, std::string folder, std::string source, std::string writer)
      : judge_(std::move(judge)), journal_(std::move(folder), std::move(source), std::move(writer)) {}

  int64_t submit(Submission submission) override {
    const int64_t ticket = next_ticket_++;
    Pending& pending = pending_[ticket];
    if ((pending.known = journal_.find(submission.key, submission.response))) return ticket;
    pending.key = submission.key;
    pending.response = submission.response;
    pending.ticket = judge_->submit(std::move(submission));
    return ticket;
  }

  Score wait(int64_t ticket) override {
    Pending pending = pending_.extract(ticket).mapped();
    if (pending.known) {
      ++replayed_;
      return std::move(*pending.known);
    }
    Score score = judge_->wait(pending.ticket);
    journal_.record(pending.key, pending.response, score);
    return score;
  }

  bool is_judged(int64_t ticket) override {
    const Pending& pending = pending_.at(ticket);
    return pending.known || judge_->is_judged(pending.ticket);
  }

  void wait_until_ready() override { judge_->wait_until_ready(); }

  ScorerStats take_stats() override {
    journal_.flush();
    ScorerStats stats = judge_->take_stats();
    stats.replayed = std::exchange(replayed_, 0);
    return stats;
  }

 private:
  struct Pending {
    std::optional<Score> known;  // from the journal
    int64_t ticket = -1;         // the judge's
    JudgementKey key;
    std::string response;
  };

  const std::unique_ptr<Scorer> judge_;
  Journal journal_;
  int64_t next_ticket_ = 0, replayed_ = 0;
  std::map<int64_t, Pending> pending_;
};

}  // namespace

std::unique_ptr<Scorer> journaled_scorer(std::unique_ptr<Scorer> judge, std::string folder, std::string source,
                                         std::string writer) {
  return std::make_unique<JournaledScorer>(std::move(judge), std::move(folder), std::move(source),
                                           std::move(writer));
}

}  // namespace trireme::rewards
