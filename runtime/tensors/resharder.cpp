#include "runtime/tensors/resharder.h"

#include <algorithm>

namespace trireme::tensors {
namespace {

int64_t total(const std::vector<Message>& messages) {
  int64_t bytes = 0;
  for (const Message& message : messages) bytes += message.bytes;
  return bytes;
}

}  // namespace

Resharder::Side Resharder::side_of(const Reshard& reshard, const Layout& layout, int rank) {
  const size_t num_blocks = reshard.tensors.empty() ? 0 : reshard.tensors.back().block + 1;
  return {layout.mesh.find(rank).has_value(), layout.dtype, num_blocks};
}

Resharder::Resharder(comm::Communicator& world, const Reshard& reshard)
    : world_(world), to_memory_(reshard.options.to_memory) {
  tensors::check(reshard).throw_if_any("the layouts cannot be joined:");
  TRIREME_CHECK(static_cast<int>(reshard.node_of.size()) == world.size(),
                "a reshard over {} ranks on a communicator of {}", reshard.node_of.size(), world.size());
  TRIREME_CHECK(world.device() == comm::Device::cpu, "'{}' moves device memory; staging is host memory",
                world.name());
  wire_ = wire_dtype(reshard);
  from_ = side_of(reshard, reshard.from, world.rank());
  to_ = side_of(reshard, reshard.to, world.rank());
  plan_ = plan_for(reshard, world.rank());
}

int64_t Resharder::sent_bytes() const {
  int64_t bytes = 0;
  for (const Round& round : plan_.rounds) bytes += total(round.sends) + total(round.forwards);
  return bytes;
}

int64_t Resharder::received_bytes() const {
  int64_t bytes = 0;
  for (const Round& round : plan_.rounds) bytes += total(round.receives);
  return bytes;
}

void Resharder::check(const Side& side, const BlockMemory& memory) {
  if (!side.has_role) return;
  TRIREME_CHECK(memory.dtype == side.dtype && memory.blocks.size() == side.num_blocks,
                "memory of {} blocks of {} where the layout has {} of {}", memory.blocks.size(),
                comm::to_string(memory.dtype), side.num_blocks, comm::to_string(side.dtype));
}

void Resharder::allocate_staging() {
  for (const size_t parity : {0, 1}) {
    int64_t packed = 0, received = 0;
    for (size_t k = parity; k < plan_.rounds.size(); k += 2) {
      packed = std::max(packed, plan_.rounds[k].packed_bytes);
      received = std::max(received, plan_.rounds[k].received_bytes);
    }
    packed_[parity] = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(packed));
    received_[parity] = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(received));
  }
}

comm::WorkHandle Resharder::start(size_t k, const BlockMemory& from, const BlockMemory& to) {
  const Round& round = plan_.rounds[k];
  const auto at = [](const Message& m, const Buffers& buffers, size_t parity, const BlockMemory& memory) {
    std::byte* base = m.block == Message::kStaged ? buffers[parity].get() : memory.blocks[m.block];
    return comm::BufferView{base + m.at, m.bytes, comm::DType::u8};
  };
  std::vector<comm::Send> sends;
  std::vector<comm::Receive> receives;
  for (const Message& m : round.forwards) sends.push_back({m.peer, at(m, received_, (k + 1) % 2, to)});
  for (const Message& m : round.sends) sends.push_back({m.peer, at(m, packed_, k % 2, from)});
  for (const Message& m : round.receives) receives.push_back({m.peer, at(m, received_, k % 2, to)});
  return world_.send_recv_async(sends, receives);
}

namespace {

class MemoryTarget : public ReshardTarget {
 public:
  explicit MemoryTarget(const BlockMemory& memory) : memory_(memory) {}
  void unpack(std::span<const Copy> copies, const std::byte* buffer, comm::DType wire) override {
    tensors::unpack(copies, buffer, wire, memory_);
  }
  void copy(std::span<const LocalCopy> copies, const BlockMemory& from) override {
    tensors::copy(copies, from, memory_);
  }

 private:
  const BlockMemory& memory_;
};

}  // namespace

void Resharder::run(const BlockMemory& from, const BlockMemory& to) {
  check(to_, to);
  TRIREME_CHECK(to_memory_, "this reshard was planned for a destination that is no memory");
  MemoryTarget target(to);
  run(from, to, target);
}

void Resharder::run(const BlockMemory& from, ReshardTarget& to) {
  TRIREME_CHECK(!to_memory_, "this reshard was planned for a destination that is memory");
  run(from, {}, to);
}

void Resharder::run(const BlockMemory& from, const BlockMemory& to, ReshardTarget& target) {
  check(from_, from);
  const std::vector<Round>& rounds = plan_.rounds;
  if (rounds.empty()) return target.copy(plan_.copies, from);
  if (packed_[0] == nullptr) allocate_staging();
  const auto pack_round = [&](size_t k) { pack(rounds[k].packs, from, packed_[k % 2].get(), wire_); };
  const auto unpack_round = [&](size_t k) {
    target.unpack(rounds[k].unpacks, received_[k % 2].get(), wire_);
  };
  pack_round(0);
  for (size_t k = 0; k < rounds.size(); ++k) {
    const comm::WorkHandle moving = start(k, from, to);
    if (k == 0) target.copy(plan_.copies, from);
    if (k > 0) unpack_round(k - 1);
    if (k + 1 < rounds.size()) pack_round(k + 1);
    moving->wait();
  }
  unpack_round(rounds.size() - 1);
}

}  // namespace trireme::tensors
