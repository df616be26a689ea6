#include "runtime/tensors/reshard_walk.h"

#include <algorithm>
#include <map>

namespace trireme::tensors {
namespace {

// Smaller messages than that cost more time than they have bytes.
constexpr int64_t kLeastParcelBytes = 64 << 10;

// Multiples of it modulo 2^64 are spread evenly, however few there are.
constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;

int least(std::span<const int> ranks, const std::vector<int64_t>& load) {
  return *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) { return load[a] < load[b]; });
}

// Of each node in a tree of depth relays + 1 that holds `num_nodes` below the root.
int num_children(int num_nodes, int relays) {
  if (relays == 0) return num_nodes;
  for (int children = 1;; ++children) {
    int64_t level = 1, total = 0;
    for (int depth = 0; depth <= relays && total < num_nodes; ++depth) total += level *= children;
    if (total >= num_nodes) return children;
  }
}

}  // namespace

int64_t staged(int64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

Router::Router(const RankSets& sets, const std::vector<int>& node_of, int relays)
    : sets_(&sets),
      node_of_(&node_of),
      relays_(relays),
      sent_inside_(node_of.size()),
      sent_across_(node_of.size()),
      received_across_(node_of.size()) {}

const Demand& Router::demand(int holders, int wanters) {
  const uint64_t key = static_cast<uint64_t>(holders) << 32 | static_cast<uint32_t>(wanters);
  const auto found = demands_.find(key);
  return found != demands_.end() ? found->second
                                 : demands_.emplace(key, work_out(holders, wanters)).first->second;
}

Demand Router::work_out(int holders, int wanters) const {
  const std::vector<int>&held = sets_->ranks(holders), &wanted = sets_->ranks(wanters);
  Demand demand;
  struct Node {
    std::vector<int> wanting, holding;
  };
  std::map<int, Node> nodes;  // ascending: the same order everywhere
  for (const int rank : wanted) {
    if (std::binary_search(held.begin(), held.end(), rank)) {
      demand.keeping.push_back(rank);
    } else {
      nodes[(*node_of_)[rank]].wanting.push_back(rank);
    }
  }
  for (const int rank : held) {
    const auto node = nodes.find((*node_of_)[rank]);
    if (node != nodes.end()) node->second.holding.push_back(rank);
  }
  for (const auto& [number, node] : nodes) {
    demand.nodes.push_back({static_cast<int>(demand.ranks.size()), static_cast<int>(node.wanting.size()),
                            static_cast<int>(node.holding.size())});
    demand.ranks.insert(demand.ranks.end(), node.wanting.begin(), node.wanting.end());
    demand.ranks.insert(demand.ranks.end(), node.holding.begin(), node.holding.end());
  }
  return demand;
}

const std::vector<Hop>& Router::route(int holders, int wanters, int64_t bytes) {
  hops_.clear();
  remote_.clear();
  const Demand& demand = this->demand(holders, wanters);
  for (const Demand::Node& node : demand.nodes) {
    if (node.num_holding == 0) {
      remote_.push_back(&node);
      continue;
    }
    for (const int rank : demand.wanting(node)) {
      const int from = least(demand.holding(node), sent_inside_);
      hops_.push_back({from, rank, 0});
      sent_inside_[from] += bytes;
    }
  }
  if (!remote_.empty()) cross(demand, holders, (turns_[wanters]++ * kGoldenRatio) >> 32, bytes);
  return hops_;
}

// Once to each node where nobody holds it, and on to the others there. With relays the nodes are a tree,
// filled level by level, in which each has as many children as the depth demands; the next parcel begins at
// the next node, so all are inner nodes equally often.
void Router::cross(const Demand& demand, int holders, size_t turn, int64_t bytes) {
  const int num_nodes = static_cast<int>(remote_.size()), children = num_children(num_nodes, relays_);
  senders_.clear();
  reached_.clear();
  for (int place = 0; place < num_nodes; ++place) {
    const auto wanting = demand.wanting(*remote_[(place + turn) % remote_.size()]);
    const bool direct = place < children;
    const auto [sender, step] =
        direct ? std::pair{next_holder(holders, bytes), 0} : reached_[place / children - 1];
    const int first = least(wanting, received_across_);
    hops_.push_back({sender, first, step});
    sent_across_[sender] += bytes;
    received_across_[first] += bytes;
    reached_.push_back({first, step + 1});
    for (const int rank : wanting) {
      if (rank == first) continue;
      hops_.push_back({first, rank, step + 1});
      sent_inside_[first] += bytes;
    }
  }
}

// The one that has sent least.
int Router::next_holder(int holders, int64_t bytes) {
  const auto more = std::greater<>();
  if (senders_.empty()) {
    for (const int rank : sets_->ranks(holders)) senders_.push_back({sent_across_[rank], rank});
    std::make_heap(senders_.begin(), senders_.end(), more);
  }
  std::pop_heap(senders_.begin(), senders_.end(), more);
  const int rank = senders_.back().second;
  senders_.back().first += bytes;
  std::push_heap(senders_.begin(), senders_.end(), more);
  return rank;
}

RoundTable::RoundTable(int num_ranks, int num_steps, int64_t bucket_bytes, int max_messages)
    : num_steps_(num_steps),
      bucket_bytes_(bucket_bytes),
      max_messages_(max_messages),
      uses_(num_steps, std::vector<Use>(num_ranks)),
      packed_by_(num_ranks) {}

int RoundTable::place(const std::vector<Hop>& hops, int64_t bytes) {
  if (hops.empty()) return current_;
  // After as many advances as there are steps nothing is in the way: what does not fit then never will.
  for (int advances = 0; !add(hops, bytes, 1) && advances < num_steps_; ++advances) {
    add(hops, bytes, -1);
    advance();
  }
  for (const Hop& hop : hops) num_rounds_ = std::max(num_rounds_, current_ + hop.step + 1);
  return current_;
}

// Adds (or takes back) what the hops use; false if that is more than a rank may use.
bool RoundTable::add(const std::vector<Hop>& hops, int64_t bytes, int sign) {
  ++parcel_;
  bool fits = true;
  for (const Hop& hop : hops) {
    Use& from = uses_[hop.step][hop.from];
    Use& to = uses_[hop.step][hop.to];
    if (hop.step == 0 && packed_by_[hop.from] != parcel_) {
      packed_by_[hop.from] = parcel_;
      from.packed += sign * bytes;
      fits &= from.packed <= bucket_bytes_;
    }
    to.received += sign * bytes;
    from.messages += sign;
    to.messages += sign;
    fits &= to.received <= bucket_bytes_ && from.messages <= max_messages_ && to.messages <= max_messages_;
  }
  return fits;
}

void RoundTable::advance() {
  std::fill(uses_[0].begin(), uses_[0].end(), Use{});
  std::rotate(uses_.begin(), uses_.begin() + 1, uses_.end());
  ++current_;
}

int walk(const Reshard& reshard, const ShardMap& from, const ShardMap& to, RankSets& sets,
         const std::function<void(const Step&)>& visit) {
  const ReshardOptions& options = reshard.options;
  const auto element = static_cast<int64_t>(comm::size_of(wire_dtype(reshard)));
  const int64_t bucket_bytes = options.staging_bytes / kStagingBuffers;
  const ParcelSize size{options.parcel_bytes / element, kLeastParcelBytes / element, bucket_bytes / element};
  Parcels parcels(from, to, sets, size);
  Router router(sets, reshard.node_of, options.relays);
  RoundTable rounds(static_cast<int>(reshard.node_of.size()), options.relays + 2, bucket_bytes,
                    options.max_messages);
  for (int block = 0; block < from.num_blocks(); ++block)
    for (const Parcel& parcel : parcels.of_block(block)) {
      const int64_t bytes = parcel.numel * element;
      const Demand& demand = router.demand(parcel.holders, parcel.wanters);
      const auto& hops = router.route(parcel.holders, parcel.wanters, bytes);
      visit({parcel, demand, hops, bytes, rounds.place(hops, staged(bytes))});
    }
  return rounds.num_rounds();
}

}  // namespace trireme::tensors
