#include "launcher/process/patience.h"

#include <algorithm>

#include "launcher/process/stall.h"
#include "runtime/base/error.h"

namespace trireme::process {
namespace {

using std::chrono::seconds;

int64_t begun(const plan::RankPage::Snapshot& page) {
  int64_t total = 0;
  for (const auto& collective : page.collectives) total += collective.seq;
  return total;
}

int64_t whole_seconds(Clock::duration time) {
  return std::chrono::floor<seconds>(time).count();
}

}  // namespace

void Patience::note_page(const plan::RankPage::Snapshot& before, const plan::RankPage::Snapshot& page,
                         Clock::time_point now) {
  if (page.changed_ns != before.changed_ns || page.ticks != before.ticks || begun(page) != begun(before))
    note_progress(now);
}

void Patience::note_progress(Clock::time_point now) {
  longest_wait_ = std::max(longest_wait_, now - last_progress_);
  last_progress_ = now;
}

bool Patience::note_stop(int rank, bool stopped, Clock::time_point now) {
  auto& since = stopped_since_[static_cast<size_t>(rank)];
  const bool is_new = stopped && !since;
  if (is_new) since = now;
  if (!stopped) since.reset();
  return is_new;
}

Clock::duration Patience::stall_limit() const {
  if (stall_timeout_ > seconds(0)) return stall_timeout_;
  return std::max<Clock::duration>(kShortestStall, kStallFactor * longest_wait_);
}

std::optional<Patience::Overdue> Patience::overdue(const std::vector<RankRecord>& ranks, int num_reported,
                                                   Clock::time_point now, int64_t now_ns) const {
  const int num_ranks = static_cast<int>(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (stopped_since_[rank] && now > *stopped_since_[rank] + kStopped)
      return Overdue{static_cast<int>(rank),
                     fmt::format("was stopped by a signal (SIGSTOP), and nobody continued it for {} s",
                                 kStopped.count())};
  if (num_reported < num_ranks) {
    if (now <= started_ + kStart) return std::nullopt;
    return Overdue{{},
                   fmt::format("{} of {} ranks did not start within {} s", num_ranks - num_reported,
                               num_ranks, kStart.count())};
  }
  const auto num_ended = std::count_if(ranks.begin(), ranks.end(), [](const auto& r) { return !!r.exit; });
  const auto waited = now - last_progress_;
  if (num_ended > 0 && waited > kLonely)
    return Overdue{
        {},
        fmt::format("{} of {} ranks have ended, and for {} s the others went on without any progress",
                    num_ended, num_ranks, kLonely.count())};
  if (waited <= stall_limit()) return std::nullopt;
  const auto stall = find_stall(ranks, now_ns);
  return Overdue{stall.rank,
                 fmt::format("{} (no progress anywhere for {} s; the limit is {} s)", stall.what,
                             whole_seconds(waited), whole_seconds(stall_limit())),
                 true};
}

}  // namespace trireme::process
