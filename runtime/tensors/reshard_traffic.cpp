#include "runtime/tensors/reshard_traffic.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "runtime/tensors/reshard_walk.h"

namespace trireme::tensors {
namespace {

// What is the least that the busiest sender sends? Loads, each to be shared out among the ranks of a set in
// any way; all loads whose sets lie within one set fall on its ranks, so their mean is a lower bound.
class BestBalance {
 public:
  void add(std::span<const int> ranks, int64_t bytes) {
    if (bytes == 0) return;
    const size_t number = static_cast<size_t>(sets_.number({ranks.begin(), ranks.end()}));
    loads_.resize(std::max(loads_.size(), number + 1));
    loads_[number] += bytes;
  }

  int64_t bound() const {
    std::map<int, std::vector<int>> by_first;  // sets by their lowest rank
    for (int set = 0; set < sets_.size(); ++set) by_first[sets_.ranks(set)[0]].push_back(set);
    std::vector<int> everybody;
    int64_t total = 0, most = 0;
    for (int set = 0; set < sets_.size(); ++set) {
      const std::vector<int>& ranks = sets_.ranks(set);
      int64_t within = 0;
      for (const int first : ranks) {
        const auto found = by_first.find(first);
        if (found == by_first.end()) continue;
        for (const int other : found->second)
          if (std::includes(ranks.begin(), ranks.end(), sets_.ranks(other).begin(), sets_.ranks(other).end()))
            within += loads_[other];
      }
      most = std::max(most, share(within, ranks.size()));
      total += loads_[set];
      everybody.insert(everybody.end(), ranks.begin(), ranks.end());
    }
    std::sort(everybody.begin(), everybody.end());
    everybody.erase(std::unique(everybody.begin(), everybody.end()), everybody.end());
    return everybody.empty() ? 0 : std::max(most, share(total, everybody.size()));
  }

 private:
  static int64_t share(int64_t bytes, size_t ranks) {
    return (bytes + static_cast<int64_t>(ranks) - 1) / static_cast<int64_t>(ranks);
  }

  RankSets sets_;
  std::vector<int64_t> loads_;
};

class Account {
 public:
  explicit Account(const Reshard& reshard) : reshard_(reshard) {
    const size_t num_ranks = reshard.node_of.size();
    const auto& node_of = reshard.node_of;
    const int num_nodes = node_of.empty() ? 0 : *std::max_element(node_of.begin(), node_of.end()) + 1;
    traffic_.inside.resize(num_ranks);
    traffic_.across.resize(num_ranks);
    traffic_.kept.resize(num_ranks);
    traffic_.nodes.resize(num_nodes);
  }

  void add(const Step& step) {
    const auto& node_of = reshard_.node_of;
    for (const Hop& hop : step.hops) {
      const bool inside = node_of[hop.from] == node_of[hop.to];
      auto& ranks = inside ? traffic_.inside : traffic_.across;
      ranks[hop.from].sent += step.bytes;
      ranks[hop.to].received += step.bytes;
      auto& in_round = inside ? inside_ : across_;
      const size_t base = static_cast<size_t>(step.round + hop.step) * node_of.size();
      if (in_round.size() < base + node_of.size()) in_round.resize(base + node_of.size());
      in_round[base + hop.from].sent += step.bytes;
      in_round[base + hop.to].received += step.bytes;
    }
    const auto [found, is_new] = asked_.try_emplace({step.parcel.holders, step.parcel.wanters});
    if (is_new) found->second.demand = step.demand;
    found->second.bytes += step.bytes;
  }

  Traffic take(const RankSets& sets, int num_rounds) {
    Traffic& t = traffic_;
    t.num_rounds = num_rounds;
    for (size_t rank = 0; rank < t.across.size(); ++rank) {
      Traffic::Bytes& node = t.nodes[reshard_.node_of[rank]];
      node.sent += t.across[rank].sent;
      node.received += t.across[rank].received;
      t.crossed += t.across[rank].received;
      t.moved += t.across[rank].received + t.inside[rank].received;
      t.largest_inside = std::max(t.largest_inside, t.inside[rank].sent);
      t.largest_across = std::max(t.largest_across, t.across[rank].sent);
    }
    t.inside_by_rounds = by_rounds(inside_);
    t.across_by_rounds = by_rounds(across_);
    find_bounds(sets);
    return std::move(traffic_);
  }

 private:
  int64_t by_rounds(const std::vector<Traffic::Bytes>& in_round) const {
    int64_t total = 0;
    for (size_t base = 0; base < in_round.size(); base += reshard_.node_of.size()) {
      int64_t busiest = 0;
      for (size_t rank = 0; rank < reshard_.node_of.size(); ++rank)
        busiest = std::max({busiest, in_round[base + rank].sent, in_round[base + rank].received});
      total += busiest;
    }
    return total;
  }

  void find_bounds(const RankSets& sets) {
    Traffic& t = traffic_;
    BestBalance inside, across;
    std::vector<int> reached;  // with relays, whoever gets something may send it on
    int64_t relayed = 0;
    const bool relays = reshard_.options.relays > 0;
    for (const auto& [pair, asked] : asked_) {
      const std::vector<int>& holders = sets.ranks(pair.first);
      for (const int rank : asked.demand.keeping) t.kept[rank] += asked.bytes;
      int64_t nodes = 0;
      for (const Demand::Node& node : asked.demand.nodes) {
        t.moved_bound += asked.bytes * node.num_wanting;
        if (node.num_holding > 0) {
          inside.add(asked.demand.holding(node), asked.bytes * node.num_wanting);
          continue;
        }
        const auto wanting = asked.demand.wanting(node);
        inside.add(wanting, asked.bytes * (node.num_wanting - 1));
        if (relays) reached.insert(reached.end(), wanting.begin(), wanting.end());
        ++nodes;
      }
      t.crossed_bound += asked.bytes * nodes;
      across.add(holders, asked.bytes * (relays ? std::min<int64_t>(nodes, 1) : nodes));
      if (relays && nodes > 1) {
        relayed += asked.bytes * (nodes - 1);
        reached.insert(reached.end(), holders.begin(), holders.end());
      }
      std::sort(reached.begin(), reached.end());
      reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
    }
    across.add(reached, relayed);
    t.largest_inside_bound = inside.bound();
    t.largest_across_bound = across.bound();
  }

  struct Asked {
    Demand demand;
    int64_t bytes = 0;
  };
  const Reshard& reshard_;
  Traffic traffic_;
  std::vector<Traffic::Bytes> inside_, across_;  // of each rank in each round: [round, rank]
  std::map<std::pair<int, int>, Asked> asked_;   // by the numbers of holders and wanters
};

std::string line(const char* what, const std::vector<Traffic::Bytes>& all, int64_t Traffic::Bytes::*side,
                 const char* bound = "") {
  int64_t least = INT64_MAX, most = 0, total = 0, count = 0;
  for (const Traffic::Bytes& bytes : all) {
    if (bytes.*side == 0) continue;
    least = std::min(least, bytes.*side);
    most = std::max(most, bytes.*side);
    total += bytes.*side;
    ++count;
  }
  if (count == 0) return {};
  constexpr double kMb = 1e6;
  return fmt::format("{:<30}{:>6}{:>12.1f}{:>12.1f}{:>12.1f}{}\n", what, count, least / kMb,
                     static_cast<double>(total) / static_cast<double>(count) / kMb, most / kMb, bound);
}

}  // namespace

std::string Traffic::table() const {
  const auto beside = [](int64_t bytes) { return fmt::format("   best balance {:.1f}", bytes / 1e6); };
  std::string text = fmt::format("{:<30}{:>6}{:>12}{:>12}{:>12}\n", "MB (10^6), of those not 0", "many",
                                 "least", "mean", "most");
  text += line("rank, sent inside its node", inside, &Bytes::sent, beside(largest_inside_bound).c_str());
  text += line("rank, received inside", inside, &Bytes::received);
  text += line("rank, sent to other nodes", across, &Bytes::sent, beside(largest_across_bound).c_str());
  text += line("rank, received from others", across, &Bytes::received);
  text += line("node, sent", nodes, &Bytes::sent);
  text += line("node, received", nodes, &Bytes::received);
  const int64_t all_kept = std::accumulate(kept.begin(), kept.end(), int64_t{0});
  text += fmt::format("all messages {:.1f}, bound {:.1f}; between nodes {:.1f}, bound {:.1f}; kept {:.1f}\n",
                      moved / 1e6, moved_bound / 1e6, crossed / 1e6, crossed_bound / 1e6, all_kept / 1e6);
  text += fmt::format("{} rounds; their busiest ranks, summed: {:.1f} between nodes, {:.1f} inside\n",
                      num_rounds, across_by_rounds / 1e6, inside_by_rounds / 1e6);
  return text;
}

Traffic traffic_of(const Reshard& reshard) {
  const ShardMap from(reshard.tensors, reshard.from), to(reshard.tensors, reshard.to);
  RankSets sets;
  Account account(reshard);
  const int num_rounds = walk(reshard, from, to, sets, [&](const Step& step) { account.add(step); });
  return account.take(sets, num_rounds);
}

}  // namespace trireme::tensors
