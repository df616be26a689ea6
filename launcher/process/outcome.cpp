#include "launcher/process/outcome.h"

#include <algorithm>
#include <csignal>

#include "launcher/process/failure_text.h"
#include "launcher/process/rank_log.h"
#include "runtime/base/error.h"

namespace trireme::process {
namespace {

constexpr int kCheckpointed = static_cast<int>(ExitStatus::checkpointed);

// Errors that the same input gives every time.
bool is_permanent(const RankRecord& record) {
  const auto& page = record.last_page();
  const auto code = page.error_code;
  return page.has_error && (code == ErrorCode::invalid_config || code == ErrorCode::bad_shape ||
                            code == ErrorCode::corrupt_data);
}

}  // namespace

Outcome outcome_of(const Ending& ending, const backends::Backend& backend) {
  const auto& ranks = ending.ranks;
  const int num_ranks = static_cast<int>(ranks.size());
  Outcome outcome;
  outcome.asked_to_stop = ending.stop_signal != 0;
  outcome.lost_hosts = lost_hosts(ranks);
  outcome.failure = first_failure(ranks, outcome.asked_to_stop);
  if (outcome.failure) {
    const RankRecord& record = ranks[static_cast<size_t>(outcome.failure->rank)];
    outcome.status = outcome.failure->status;
    outcome.may_pass = !is_permanent(record) && outcome.status != 127 && outcome.status != 2;
    const auto& page = record.last_page();
    outcome.place = fmt::format("{} step {}", page.phase.empty() ? "start" : page.phase, page.step);
    outcome.text = failure_text(*outcome.failure, record, num_ranks,
                                rank_log_path(ending.run_dir, outcome.failure->rank));
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (!ranks[rank].stuck.empty())
        outcome.text += fmt::format("\n  rank {} could not be ended: on {}, {}", rank, ranks[rank].host,
                                    ranks[rank].stuck);
    return outcome;
  }
  const bool all_good = std::all_of(ranks.begin(), ranks.end(), [](const auto& r) {
    return r.exit && !r.exit->signaled && (r.exit->status == 0 || r.exit->status == kCheckpointed);
  });
  const bool checkpointed = all_good && std::any_of(ranks.begin(), ranks.end(), [](const auto& r) {
                              return r.exit->status == kCheckpointed;
                            });
  const auto finish = [&](ExitStatus status, const std::string& text) {
    outcome.status = static_cast<int>(status);
    outcome.text = text;
    return outcome;
  };
  if (!all_good && !outcome.asked_to_stop) {
    const auto trouble =
        ending.trouble.empty() ? fmt::format("{} could not start the ranks", backend.name()) : ending.trouble;
    outcome.may_pass = true;
    return finish(ending.timed_out ? ExitStatus::timed_out : ExitStatus::failed,
                  trouble_text(trouble, backend, ending.backend_log, ending.log_offset));
  }
  std::string text;
  if (checkpointed)
    text = fmt::format("trireme: stopped after a checkpoint; to go on: {}", ending.how_to_resume);
  else if (!all_good)
    text = "trireme: stopped at once, without a checkpoint of the last steps";
  if (ending.stop_signal == SIGINT || ending.killed || !all_good)
    return finish(ExitStatus::interrupted, text);
  return finish(checkpointed ? ExitStatus::checkpointed : ExitStatus::ok, text);
}

}  // namespace trireme::process
