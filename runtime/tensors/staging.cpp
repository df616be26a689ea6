#include "runtime/tensors/staging.h"

#include <bit>
#include <cstring>
#include <vector>

namespace trireme::tensors {
namespace {

int64_t width(comm::DType dtype) {
  return static_cast<int64_t>(comm::size_of(dtype));
}

// Buffers begin anywhere, so elements are copied out and in; in blocks of a fixed size, which compilers turn
// into vectors.
constexpr int64_t kBlock = 64;

uint16_t narrowed(uint32_t bits) {
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
}
uint32_t widened(uint16_t half) {
  return static_cast<uint32_t>(half) << 16;
}

template <typename From, typename To, typename Element>
void convert_each(const std::byte* from, std::byte* to, int64_t count, const Element& element) {
  From in[kBlock];
  To out[kBlock];
  for (; count >= kBlock; count -= kBlock, from += sizeof in, to += sizeof out) {
    std::memcpy(in, from, sizeof in);
    for (int64_t i = 0; i < kBlock; ++i) out[i] = element(in[i]);
    std::memcpy(to, out, sizeof out);
  }
  std::memcpy(in, from, static_cast<size_t>(count) * sizeof(From));
  for (int64_t i = 0; i < count; ++i) out[i] = element(in[i]);
  std::memcpy(to, out, static_cast<size_t>(count) * sizeof(To));
}

void narrow(const std::byte* from, std::byte* to, int64_t count) {
  convert_each<uint32_t, uint16_t>(from, to, count, narrowed);
}
void widen(const std::byte* from, std::byte* to, int64_t count) {
  convert_each<uint16_t, uint32_t>(from, to, count, widened);
}

}  // namespace

void convert(const std::byte* from, comm::DType from_dtype, std::byte* to, comm::DType to_dtype,
             int64_t count) {
  using comm::DType;
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<size_t>(count * width(to_dtype)));
  } else if (from_dtype == DType::f32 && to_dtype == DType::bf16) {
    narrow(from, to, count);
  } else {
    TRIREME_CHECK(from_dtype == DType::bf16 && to_dtype == DType::f32, "{} cannot be converted to {}",
                  comm::to_string(from_dtype), comm::to_string(to_dtype));
    widen(from, to, count);
  }
}

void pack(std::span<const Copy> copies, const BlockMemory& from, std::byte* buffer, comm::DType wire) {
  for (const Copy& copy : copies) {
    std::byte* to = buffer + copy.at;
    for (Runs runs(copy.where); !runs.done(); runs.next()) {
      convert(from.blocks[copy.block] + runs.offset() * width(from.dtype), from.dtype, to, wire,
              runs.length());
      to += runs.length() * width(wire);
    }
  }
}

void unpack(std::span<const Copy> copies, const std::byte* buffer, comm::DType wire, const BlockMemory& to) {
  for (const Copy& copy : copies) {
    const std::byte* from = buffer + copy.at;
    for (Runs runs(copy.where); !runs.done(); runs.next()) {
      convert(from, wire, to.blocks[copy.block] + runs.offset() * width(to.dtype), to.dtype, runs.length());
      from += runs.length() * width(wire);
    }
  }
}

void copy(std::span<const LocalCopy> copies, const BlockMemory& from, const BlockMemory& to) {
  for (const LocalCopy& copy : copies)
    for_each_common_run(copy.from, copy.to, [&](int64_t source, int64_t target, int64_t count) {
      convert(from.blocks[copy.block] + source * width(from.dtype), from.dtype,
              to.blocks[copy.block] + target * width(to.dtype), to.dtype, count);
    });
}

namespace {

class HostStaging : public Staging {
 public:
  HostStaging(const RankPlan& plan, comm::DType wire) : plan_(plan), wire_(wire) {}
  std::byte* allocate(int64_t bytes) override {
    return memory_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes)))
        .get();
  }
  void pack(size_t round, const BlockMemory& from, std::byte* buffer) override {
    tensors::pack(plan_.rounds[round].packs, from, buffer, wire_);
  }
  void unpack(size_t round, const std::byte* buffer, const BlockMemory& to) override {
    tensors::unpack(plan_.rounds[round].unpacks, buffer, wire_, to);
  }
  void copy(const BlockMemory& from, const BlockMemory& to) override {
    tensors::copy(plan_.copies, from, to);
  }

 private:
  const RankPlan& plan_;
  comm::DType wire_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace

std::unique_ptr<Staging> host_staging(const RankPlan& plan, comm::DType wire) {
  return std::make_unique<HostStaging>(plan, wire);
}

}  // namespace trireme::tensors
