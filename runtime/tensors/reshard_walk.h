// The whole reshard, parcel by parcel: which way each goes and in which round. Every rank walks all of it and
// keeps its own part, so all see the same choices; the walk is over sets of ranks and nodes, never over pairs
// of ranks.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/tensors/parcels.h"
#include "runtime/tensors/reshard_plan.h"

namespace trireme::tensors {

/// A message: in round (the parcel's round + step). Step 0 is sent by a rank that holds the parcel in the
/// source layout, step s by one that received it in step s - 1.
struct Hop {
  int from = 0, to = 0;
  int step = 0;
};

/// What one pair of sets asks for: who keeps it, and node by node who lacks it and who there holds it.
struct Demand {
  std::vector<int> keeping;  // wanters that are holders
  struct Node {
    int first = 0, num_wanting = 0, num_holding = 0;
  };
  std::vector<Node> nodes;  // where anybody lacks it
  std::vector<int> ranks;   // of each of them, from `first` on: the wanting, then the holding

  std::span<const int> wanting(const Node& node) const {
    return std::span(ranks).subspan(node.first, node.num_wanting);
  }
  std::span<const int> holding(const Node& node) const {
    return std::span(ranks).subspan(node.first + node.num_wanting, node.num_holding);
  }
};

/// Chooses the way of each parcel, and remembers what each rank has sent and received.
class Router {
 public:
  Router(const RankSets& sets, const std::vector<int>& node_of, int relays);

  const Demand& demand(int holders, int wanters);
  /// A rank receives a parcel before it passes it on, and sends it in one step only. Valid until the next
  /// call.
  const std::vector<Hop>& route(int holders, int wanters, int64_t bytes);

 private:
  Demand work_out(int holders, int wanters) const;
  void cross(const Demand& demand, int holders, size_t turn, int64_t bytes);
  int next_holder(int holders, int64_t bytes);

  const RankSets* sets_;
  const std::vector<int>* node_of_;
  int relays_;
  std::unordered_map<uint64_t, Demand> demands_;
  std::vector<int64_t> sent_inside_, sent_across_, received_across_;  // bytes, of each rank
  std::vector<Hop> hops_;
  std::vector<std::pair<int64_t, int>>
      senders_;  // (sent across, rank) of a parcel's holders: a heap, least on top
  std::vector<const Demand::Node*> remote_;   // nodes that a parcel must cross to
  std::vector<std::pair<int, int>> reached_;  // (rank, step) that received it there
  std::unordered_map<int, size_t> turns_;     // by wanters: which of their nodes is the first to get a parcel
};

/// Gives each parcel its round: the current one, until a rank that a parcel concerns has no more room there.
/// Then all go on to the next.
class RoundTable {
 public:
  RoundTable(int num_ranks, int num_steps, int64_t bucket_bytes, int max_messages);

  int place(const std::vector<Hop>& hops, int64_t bytes);
  int num_rounds() const { return num_rounds_; }

 private:
  struct Use {
    int64_t packed = 0, received = 0;
    int messages = 0;
  };
  bool add(const std::vector<Hop>& hops, int64_t bytes, int sign);
  void advance();

  int num_steps_;
  int64_t bucket_bytes_;
  int max_messages_;
  int current_ = 0, num_rounds_ = 0;
  std::vector<std::vector<Use>> uses_;  // of each rank in the current round, the next, ... one for each step
  std::vector<int64_t> packed_by_;  // the last parcel that each rank packed: it is packed once for all peers
  int64_t parcel_ = 0;
};

/// What a round packs and receives, and the same of the round beside it.
inline constexpr int64_t kStagingBuffers = 4;
/// In buffers, parcels begin at multiples of this.
inline constexpr int64_t kStagingAlignment = 16;
int64_t staged(int64_t bytes);

struct Step {
  const Parcel& parcel;
  const Demand& demand;
  const std::vector<Hop>& hops;
  int64_t bytes;  // of the parcel on the wire
  int round;
};

/// Returns the number of rounds. `from` and `to` are the reshard's layouts worked out.
int walk(const Reshard& reshard, const ShardMap& from, const ShardMap& to, RankSets& sets,
         const std::function<void(const Step&)>& visit);

}  // namespace trireme::tensors
