#include "runtime/tensors/reshard_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/tensors/reshard_walk.h"

namespace trireme::tensors {
namespace {

using Coordinates = ShardMap::Coordinates;

bool convertible(comm::DType dtype) {
  return dtype == comm::DType::bf16 || dtype == comm::DType::f32;
}

// Keeps one rank's part of the walk.
class Part {
 public:
  Part(const Reshard& reshard, const ShardMap& from, const ShardMap& to, int rank)
      : from_(from), to_(to), rank_(rank), source_(from.find(rank)), destination_(to.find(rank)) {
    element_ = static_cast<int64_t>(comm::size_of(wire_dtype(reshard)));
    wire_ = wire_dtype(reshard);
    to_memory_ = reshard.options.to_memory;
    if (source_ && destination_ && reshard.options.share && to_memory_ &&
        reshard.from.dtype == reshard.to.dtype)
      find_shared();
  }

  void add(const Step& step) {
    keep(step);
    std::optional<Location> packed, received;
    for (const Hop& hop : step.hops) {
      if (hop.from == rank_) {
        Round& round = round_at(step.round + hop.step);
        if (hop.step > 0) {
          round.forwards.push_back({hop.to, received->at, step.bytes, received->block});
        } else {
          if (!packed) packed = pack(step.parcel, round);
          round.sends.push_back({hop.to, packed->at, step.bytes, packed->block});
        }
      } else if (hop.to == rank_) {
        Round& round = round_at(step.round + hop.step);
        received = unpack(step.parcel, round);
        round.receives.push_back({hop.from, received->at, step.bytes, received->block});
      }
    }
  }

  RankPlan take(int num_rounds) {
    RankPlan& plan = plan_;
    plan.num_rounds = num_rounds;
    plan.rounds = std::move(rounds_);
    std::erase_if(plan.rounds, [](const Round& round) {
      return round.sends.empty() && round.forwards.empty() && round.receives.empty();
    });
    int64_t most[kStagingBuffers] = {};
    for (size_t k = 0; k < plan.rounds.size(); ++k) {
      int64_t &packed = most[k % 2], &received = most[2 + k % 2];
      packed = std::max(packed, plan.rounds[k].packed_bytes);
      received = std::max(received, plan.rounds[k].received_bytes);
    }
    plan.staging_bytes = std::accumulate(std::begin(most), std::end(most), int64_t{0});
    return std::move(plan_);
  }

 private:
  // Of a parcel on this rank.
  struct Location {
    int block = Message::kStaged;
    int64_t at = 0;
  };

  // Matrices whose slices are alike and whole in both layouts.
  void find_shared() {
    const auto& tensors = from_.tensors();
    shared_.resize(tensors.size());
    for (size_t first = 0, last = 0; first < tensors.size(); first = last) {
      for (last = first + 1; last < tensors.size() && tensors[last].joins_previous;) ++last;
      const int block = tensors[first].block;
      bool alike = from_.holds(source_->p, block) && to_.holds(destination_->p, block);
      int64_t numel = 0;
      for (size_t i = first; alike && i < last; ++i) {
        const Box& slice = from_.slice(source_->t, static_cast<int>(i));
        alike = slice == to_.slice(destination_->t, static_cast<int>(i)) &&
                from_.held(source_->d, source_->t, static_cast<int>(i)).numel() == slice.numel() &&
                to_.held(destination_->d, destination_->t, static_cast<int>(i)).numel() == slice.numel();
        numel += slice.numel();
      }
      if (!alike || numel == 0) continue;
      std::fill(shared_.begin() + first, shared_.begin() + last, true);
      const int tensor = static_cast<int>(first);
      const Strided where = from_.place(source_->d, source_->t, tensor, from_.slice(source_->t, tensor));
      plan_.shared.push_back({tensor, static_cast<int>(last), block, where.offset});
    }
  }

  void keep(const Step& step) {
    if (!std::binary_search(step.demand.keeping.begin(), step.demand.keeping.end(), rank_)) return;
    for (const Parcel::Part& part : step.parcel.parts)
      if (shared_.empty() || !shared_[part.tensor])
        plan_.copies.push_back(
            {block_of(part), place(from_, *source_, part), place(to_, *destination_, part)});
  }

  Location pack(const Parcel& parcel, Round& round) {
    if (const auto found = in_one_piece(parcel, from_, *source_)) return *found;
    return stow(parcel, from_, *source_, round.packs, round.packed_bytes);
  }
  Location unpack(const Parcel& parcel, Round& round) {
    if (to_memory_)
      if (const auto found = in_one_piece(parcel, to_, *destination_)) return *found;
    return stow(parcel, to_, *destination_, round.unpacks, round.received_bytes);
  }

  std::optional<Location> in_one_piece(const Parcel& parcel, const ShardMap& map, Coordinates at) const {
    if (map.layout().dtype != wire_) return std::nullopt;
    const int64_t begin = place(map, at, parcel.parts.front()).offset;
    int64_t end = begin;
    for (const Parcel::Part& part : parcel.parts) {
      const Strided where = place(map, at, part);
      if (!where.contiguous() || where.offset != end) return std::nullopt;
      end += part.box.numel();
    }
    return Location{block_of(parcel.parts.front()), begin * element_};
  }

  // The parcel's copies between this rank's memory and the end of a buffer of `buffer_bytes`.
  Location stow(const Parcel& parcel, const ShardMap& map, Coordinates at, std::vector<Copy>& copies,
                int64_t& buffer_bytes) const {
    const int64_t begin = buffer_bytes;
    int64_t next = begin;
    for (const Parcel::Part& part : parcel.parts) {
      copies.push_back({block_of(part), place(map, at, part), next});
      next += part.box.numel() * element_;
    }
    buffer_bytes += staged(next - begin);
    return {Message::kStaged, begin};
  }

  int block_of(const Parcel::Part& part) const { return from_.tensors()[part.tensor].block; }
  static Strided place(const ShardMap& map, Coordinates at, const Parcel::Part& part) {
    return map.place(at.d, at.t, part.tensor, part.box);
  }

  Round& round_at(int index) {
    for (int next = static_cast<int>(rounds_.size()); next <= index; ++next)
      rounds_.emplace_back().index = next;
    return rounds_[index];
  }

  const ShardMap& from_;
  const ShardMap& to_;
  int rank_;
  std::optional<Coordinates> source_, destination_;
  int64_t element_ = 0;
  comm::DType wire_ = comm::DType::bf16;
  bool to_memory_ = true;
  std::vector<bool> shared_;  // of each tensor; empty if none is
  std::vector<Round> rounds_;
  RankPlan plan_;
};

}  // namespace

Mistakes check(const Reshard& reshard) {
  Mistakes mistakes;
  const int num_ranks = static_cast<int>(reshard.node_of.size());
  for (const Layout* layout : {&reshard.from, &reshard.to}) {
    const Mistakes of_layout = check(reshard.tensors, *layout, num_ranks);
    const auto& known = mistakes.lines();  // a mistake in the tensors is found twice
    for (const std::string& line : of_layout.lines())
      if (std::find(known.begin(), known.end(), line) == known.end()) mistakes.add("", line);
  }
  const comm::DType a = reshard.from.dtype, b = reshard.to.dtype;
  if (a != b && !(convertible(a) && convertible(b)))
    mistakes.add(reshard.to.role, fmt::format("{} cannot become {} on the way; bf16 and f32 can be converted",
                                              comm::to_string(a), comm::to_string(b)));
  for (const int node : reshard.node_of)
    if (node < 0) mistakes.add("", fmt::format("node {} of a rank; nodes are numbered 0, 1, ...", node));
  const ReshardOptions& options = reshard.options;
  if (options.parcel_bytes < kStagingAlignment)
    mistakes.add("parcel_bytes", fmt::format("{} is less than {}", options.parcel_bytes, kStagingAlignment));
  if (options.staging_bytes / kStagingBuffers < staged(options.parcel_bytes))
    mistakes.add("staging_bytes", fmt::format("{} does not hold {} parcels of {} bytes",
                                              options.staging_bytes, kStagingBuffers, options.parcel_bytes));
  if (options.max_messages < 1 || options.relays < 0)
    mistakes.add("", fmt::format("max_messages = {} must be at least 1 and relays = {} at least 0",
                                 options.max_messages, options.relays));
  return mistakes;
}

comm::DType wire_dtype(const Reshard& reshard) {
  const comm::DType a = reshard.from.dtype, b = reshard.to.dtype;
  return comm::size_of(b) < comm::size_of(a) ? b : a;
}

RankPlan plan_for(const Reshard& reshard, int rank) {
  const ShardMap from(reshard.tensors, reshard.from), to(reshard.tensors, reshard.to);
  RankSets sets;
  Part part(reshard, from, to, rank);
  const int num_rounds = walk(reshard, from, to, sets, [&](const Step& step) { part.add(step); });
  return part.take(num_rounds);
}

}  // namespace trireme::tensors
