// Resharding: the tensors of a model go from one layout to another over the same world of ranks. The plan is
// made once, from the layouts alone; each rank makes its own part and all parts agree, without a message.
//
// Who gets what from whom, by fixed rules:
//   1. What a rank holds already it keeps. Where both layouts hold a whole matrix alike, both roles read one
//      buffer (`shared`); otherwise it is copied on the spot.
//   2. What another rank of its node holds, it gets from there.
//   3. What no rank of its node holds crosses to the node once, to the rank there that has received least; in
//      the next round that rank passes it on to the others of the node that want it.
//   Among equal sources the one that has sent least goes first, so senders and receivers are balanced.
// So every destination receives each element that it lacks exactly once, and every node likewise.
//
// Rounds. A rank's part is a list of rounds, ascending. In each it packs, then sends and receives as one
// group, then unpacks. A message of round k is received in round k, so rounds cannot deadlock, whichever of
// them a rank has no part in. Per round a rank packs no more than a quarter of `staging_bytes` and receives
// no more than a quarter: while a round is on the way it still holds what it received in the round before, to
// unpack it and pass it on, and packs for the next. It has no more than `max_messages` sends and receives (or
// one parcel's, if that is more): NCCL is known to hang on groups of very many.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/tensors/layout.h"

namespace trireme::tensors {

struct ReshardOptions {
  int64_t staging_bytes = int64_t{1} << 30;  // memory a rank may use beside its tensors
  int64_t parcel_bytes = int64_t{4} << 20;   // the most that one message carries
  int max_messages = 1024;                   // per rank and round
  /// How often what crosses between nodes may be passed on to further nodes by a rank that received it, a
  /// round later each. 0: only those that hold it send it. More where few nodes send to many: with 6, where 8
  /// nodes feed 64, nobody sends more between nodes than a destination receives.
  int relays = 0;
  /// False: a matrix held alike is copied, because the source will change while the destination is read.
  bool share = true;
  /// False: the destination is no memory but, say, files. Nothing is shared with it, and all that it gets
  /// passes through buffers.
  bool to_memory = true;
};

/// What is asked for. The references must outlive what is made from it.
struct Reshard {
  const std::vector<TensorSpec>& tensors;
  const Layout& from;
  const Layout& to;
  std::vector<int> node_of;  // of each rank of the world, 0, 1, ...
  ReshardOptions options = {};
};

/// Every mistake in the two layouts and the options. The functions below need a Reshard without any.
Mistakes check(const Reshard& reshard);

/// What travels has the narrower of the two types: the source converts before it sends, or the destination
/// after it received. bf16 and f32 are converted into each other, other types must be equal.
comm::DType wire_dtype(const Reshard& reshard);

/// Elements between a rank's memory of a block and a buffer, where they lie dense from byte `at` on.
struct Copy {
  int block = 0;
  Strided where;
  int64_t at = 0;
};

/// Elements from this rank's memory in one layout to its memory in the other, in the same order.
struct LocalCopy {
  int block = 0;
  Strided from, to;
};

struct Message {
  static constexpr int kStaged = -1;
  int peer = 0;
  int64_t at = 0, bytes = 0;  // in the buffer that is named where the message stands
  /// What lies in a rank's memory in one piece, in the wire's type, is sent from there and received there:
  /// then this is its block, of the source's memory for what is packed, else of the destination's, and `at`
  /// counts from the block's beginning.
  int block = kStaged;
};

struct Round {
  int index = 0;
  std::vector<Copy> packs;        // from the source's memory to the packed buffer, in the wire's type
  std::vector<Message> sends;     // from the packed buffer
  std::vector<Message> forwards;  // from the buffer received in round index - 1: also sent in this round
  std::vector<Message> receives;  // to this round's received buffer
  std::vector<Copy> unpacks;      // from there to the destination's memory
  int64_t packed_bytes = 0, received_bytes = 0;
};
// Within a round, what one rank sends to another (forwards first, then sends) meets what that one receives
// from it, in this order.

/// Tensors [first, last), one matrix: the destination reads the source's memory of `block` from `offset` on.
struct Shared {
  int first = 0, last = 0;
  int block = 0;
  int64_t offset = 0;  // elements
};

/// One rank's part.
struct RankPlan {
  std::vector<Shared> shared;
  std::vector<LocalCopy> copies;  // any time before the source changes; they do not touch the rounds
  std::vector<Round> rounds;      // those that it has a part in, ascending
  int num_rounds = 0;             // of the whole reshard, the same on all ranks
  /// What this rank will need: two buffers for packed and two for received rounds, of which its first,
  /// third, ... round uses one and the others the other. At most options.staging_bytes.
  int64_t staging_bytes = 0;
};

/// Local: needs nobody else. Any rank of the world; one that has neither role gets an empty part.
RankPlan plan_for(const Reshard& reshard, int rank);

}  // namespace trireme::tensors
