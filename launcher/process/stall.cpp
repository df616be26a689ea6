#include "launcher/process/stall.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace trireme::process {
namespace {

using Collective = plan::RankPage::Collective;

// What one rank says of one communicator.
struct Place {
  int rank;
  const Collective* collective;
};

std::string described(const Collective& c, int64_t seq) {
  std::string text = fmt::format("{} #{} of '{}'", c.op, seq, c.communicator);
  if (c.count > 0) text += fmt::format(" ({}, {} elements)", c.dtype, c.count);
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 8; ++i) text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
  if (ranks.size() > 8) text += fmt::format(" and {} more", ranks.size() - 8);
  return fmt::format("rank{} {} wait{}", ranks.size() > 1 ? "s" : "", text, ranks.size() > 1 ? "" : "s");
}

bool waits(const RankRecord& record) {
  return std::any_of(record.page.collectives.begin(), record.page.collectives.end(),
                     [](const Collective& c) { return c.running; });
}

std::string doing(const RankRecord& record, int64_t now_ns) {
  const auto& page = record.page;
  const auto since = (now_ns - page.changed_ns - record.clock_offset_ns) / 1'000'000'000;
  if (page.stage.empty() && page.phase.empty()) return "it has said nothing of what it does";
  return fmt::format("it is in {} since {} s", page.stage.empty() ? page.phase : "stage " + page.stage,
                     since);
}

// Somebody waits in a collective that `behind` has not entered.
struct Gap {
  int behind;
  bool waits_elsewhere;
  int64_t missing;  // how many collectives it is behind
  bool nobody_waits;
  std::string text;
};

void find_gaps(const std::vector<RankRecord>& ranks, const std::vector<Place>& places, int64_t now_ns,
               std::vector<Gap>& gaps) {
  int64_t furthest = 0;
  for (const auto& place : places) furthest = std::max(furthest, place.collective->seq);
  std::vector<int> waiting;
  const Collective* entered = nullptr;
  for (const auto& [rank, collective] : places)
    if (collective->seq == furthest && collective->running) {
      waiting.push_back(rank);
      entered = collective;
    }
  // On a GPU a call is over when it is enqueued: nobody is seen to wait.
  const bool enqueued_only = !entered;
  for (const auto& [rank, collective] : places)
    if (enqueued_only && collective->seq == furthest) {
      waiting.push_back(rank);
      entered = collective;
    }
  if (!entered || furthest == 0) return;
  for (const auto& [rank, collective] : places) {
    if (collective->seq == furthest) continue;
    const auto& record = ranks[static_cast<size_t>(rank)];
    gaps.push_back({rank, waits(record), furthest - collective->seq, enqueued_only,
                    fmt::format("never entered {}, in which {}; {}", described(*entered, furthest),
                                ranks_text(waiting), doing(record, now_ns))});
  }
}

// Two that wait at the same number, but for different things.
std::optional<Stall> find_mismatch(const std::vector<Place>& places) {
  for (const auto& a : places)
    for (const auto& b : places) {
      const auto &x = *a.collective, &y = *b.collective;
      if (x.seq == y.seq && x.running && y.running && (x.op != y.op || x.dtype != y.dtype))
        return Stall{b.rank, fmt::format("waits in {}, while rank {} is in {}", described(y, y.seq), a.rank,
                                         described(x, x.seq))};
    }
  return std::nullopt;
}

}  // namespace

Stall find_stall(const std::vector<RankRecord>& ranks, int64_t now_ns) {
  std::map<std::string, std::vector<Place>> communicators;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto& collective : ranks[rank].page.collectives)
      communicators[collective.communicator].push_back({static_cast<int>(rank), &collective});

  std::vector<Gap> gaps;
  for (const auto& [name, places] : communicators) find_gaps(ranks, places, now_ns, gaps);
  const auto suspect = std::min_element(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
    return std::tuple(a.nobody_waits, a.waits_elsewhere, -a.missing, a.behind) <
           std::tuple(b.nobody_waits, b.waits_elsewhere, -b.missing, b.behind);
  });
  if (suspect != gaps.end() && !suspect->waits_elsewhere) return {suspect->behind, suspect->text};
  for (const auto& [name, places] : communicators)
    if (const auto mismatch = find_mismatch(places)) return *mismatch;
  if (suspect != gaps.end())
    return {suspect->behind, suspect->text + "; it waits in a collective of another group"};

  // All are in the same collective, or none is in any.
  for (const auto& [name, places] : communicators)
    for (const auto& [rank, collective] : places)
      if (collective->running)
        return {rank,
                fmt::format("waits in {}, which all ranks of the group have entered: the network between "
                            "them, or the library that carries it",
                            described(*collective, collective->seq))};
  int oldest = 0;
  const auto changed = [&](size_t i) { return ranks[i].page.changed_ns + ranks[i].clock_offset_ns; };
  for (size_t i = 1; i < ranks.size(); ++i)
    if (changed(i) < changed(static_cast<size_t>(oldest))) oldest = static_cast<int>(i);
  return {oldest, fmt::format("makes no progress; {}", doing(ranks[static_cast<size_t>(oldest)], now_ns))};
}

}  // namespace trireme::process
