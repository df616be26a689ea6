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

Resharder::Resharder(comm::Communicator& world, const Reshard& reshard, const GpuToolkit& gpu)
    : world_(world), to_memory_(reshard.options.to_memory) {
  tensors::check(reshard).throw_if_any("the layouts cannot be joined:");
  TRIREME_CHECK(static_cast<int>(reshard.node_of.size()) == world.size(),
                "a reshard over {} ranks on a communicator of {}", reshard.node_of.size(), world.size());
  wire_ = wire_dtype(reshard);
  from_ = side_of(reshard, reshard.from, world.rank());
  to_ = side_of(reshard, reshard.to, world.rank());
  plan_ = plan_for(reshard, world.rank());
  const bool on_host = world.device() == comm::Device::cpu;
  TRIREME_CHECK(on_host || to_memory_, "files are written from host memory, '{}' moves a GPU's",
                world.name());
  staging_ = on_host ? host_staging(plan_, wire_) : gpu_staging(plan_, wire_, gpu);
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
    packed_[parity] = staging_->allocate(packed);
    received_[parity] = staging_->allocate(received);
  }
  allocated_ = true;
}

comm::WorkHandle Resharder::start(size_t k, const BlockMemory& from, const BlockMemory& to) {
  const Round& round = plan_.rounds[k];
  const auto at = [&](const Message& m, const Buffers& buffers, size_t parity, const BlockMemory& memory) {
    std::byte* base = m.block == Message::kStaged ? buffers[parity] : memory.blocks[m.block];
    return comm::BufferView{base + m.at, m.bytes, comm::DType::u8, world_.device()};
  };
  std::vector<comm::Send> sends;
  std::vector<comm::Receive> receives;
  for (const Message& m : round.forwards) sends.push_back({m.peer, at(m, received_, (k + 1) % 2, to)});
  for (const Message& m : round.sends) sends.push_back({m.peer, at(m, packed_, k % 2, from)});
  for (const Message& m : round.receives) receives.push_back({m.peer, at(m, received_, k % 2, to)});
  return world_.send_recv_async(sends, receives);
}

void Resharder::run(const BlockMemory& from, const BlockMemory& to) {
  check(to_, to);
  TRIREME_CHECK(to_memory_, "this reshard was planned for a destination that is no memory");
  run(
      from, to, [&](size_t k) { staging_->unpack(k, received_[k % 2], to); },
      [&] { staging_->copy(from, to); });
}

void Resharder::run(const BlockMemory& from, ReshardTarget& to) {
  TRIREME_CHECK(!to_memory_, "this reshard was planned for a destination that is memory");
  run(
      from, {}, [&](size_t k) { to.unpack(plan_.rounds[k].unpacks, received_[k % 2], wire_); },
      [&] { to.copy(plan_.copies, from); });
}

template <typename Unpack, typename Copy>
void Resharder::run(const BlockMemory& from, const BlockMemory& to, const Unpack& unpack, const Copy& copy) {
  check(from_, from);
  const size_t num_rounds = plan_.rounds.size();
  if (num_rounds == 0) return copy();
  if (!allocated_) allocate_staging();
  const auto pack = [&](size_t k) { staging_->pack(k, from, packed_[k % 2]); };
  pack(0);
  for (size_t k = 0; k < num_rounds; ++k) {
    const comm::WorkHandle moving = start(k, from, to);
    if (k == 0) copy();
    if (k > 0) unpack(k - 1);
    if (k + 1 < num_rounds) pack(k + 1);
    moving->join();
  }
  unpack(num_rounds - 1);
}

}  // namespace trireme::tensors
