#include "trainer/steps/judging.h"

#include <cstring>
#include <string>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::steps {
namespace {

struct Verdict {  // what the other ranks of a replica need
  double value;
  bool correct, has_format;
};

std::string to_bytes(const std::vector<rewards::Score>& scores) {
  std::string bytes;
  for (const rewards::Score& score : scores) {
    const Verdict verdict{score.value, score.correct, score.has_format};
    bytes.append(reinterpret_cast<const char*>(&verdict), sizeof verdict);
  }
  return bytes;
}

std::vector<rewards::Score> from_bytes(const std::string& bytes, size_t count) {
  std::vector<rewards::Score> scores(count);
  TRIREME_CHECK(bytes.size() == count * sizeof(Verdict), "{} verdicts in {} bytes", count, bytes.size());
  for (size_t i = 0; i < count; ++i) {
    Verdict verdict;
    std::memcpy(&verdict, bytes.data() + i * sizeof verdict, sizeof verdict);
    scores[i] = {verdict.value, verdict.correct, verdict.has_format};
  }
  return scores;
}

void record(const std::vector<rewards::Score>& scores, const rewards::ScorerStats& stats,
            StepMetrics& metrics) {
  for (const rewards::Score& score : scores)
    for (const auto& [name, value] : score.extras) metrics.mean("reward/" + name + "/mean", value);
  if (stats.scores + stats.replayed == 0) return;  // a rule, which does not fail
  metrics.sum("reward/errors", static_cast<double>(stats.errors));
  metrics.sum("reward/timeouts", static_cast<double>(stats.timeouts));
  metrics.sum("reward/ended_processes", static_cast<double>(stats.ended_processes));
  metrics.sum("reward/defaults", static_cast<double>(stats.defaults));
  metrics.sum("reward/replayed", static_cast<double>(stats.replayed));
}

}  // namespace

Judging::Judging(StepContext& context, int64_t step, size_t count)
    : context_(context), step_(step), tickets_(count, -1), scores_(count) {}

void Judging::hand_in(size_t place, std::string name, const data::Problem& problem,
                      std::span<const int32_t> response) {
  if (context_.scorer)
    tickets_.at(place) = context_.scorer->submit(
        {problem.data_source, context_.tokenizer.decode(response), problem.answer,
         problem.extra_info, static_cast<int64_t>(response.size()), {step_, std::move(name)}});
}

bool Judging::is_judged(size_t place) const {
  return scores_.at(place) || context_.scorer->is_judged(tickets_.at(place));
}

const rewards::Score& Judging::score(size_t place) {
  std::optional<rewards::Score>& score = scores_.at(place);
  if (!score) score = context_.scorer->wait(tickets_.at(place));
  return *score;
}

std::vector<rewards::Score> Judging::scores(StepMetrics& metrics) {
  comm::Communicator& replica = context_.session.tp(placement::Role::rollout);
  std::vector<rewards::Score> scores;
  std::string bytes;
  try {
    for (size_t place = 0; place < tickets_.size() && context_.scorer; ++place)
      scores.push_back(score(place));
    bytes = to_bytes(scores);
  } catch (...) {
    // The others wait for the verdicts: they hear that there are none, and of the error as the stage ends.
    if (replica.size() > 1) replica.broadcast_string("", 0);
    throw;
  }
  if (context_.scorer) record(scores, context_.scorer->take_stats(), metrics);
  if (replica.size() == 1) return scores;
  bytes = replica.broadcast_string(bytes, 0);
  if (bytes.empty()) return std::vector<rewards::Score>(tickets_.size());
  return context_.scorer ? scores : from_bytes(bytes, tickets_.size());
}

}  // namespace trireme::steps
