#include "runtime/observe/event_file.h"

#include <array>
#include <bit>
#include <cstring>

namespace trireme::observe {
namespace {

static_assert(std::endian::native == std::endian::little, "fixed-width fields are copied as they lie");

// Protobuf wire types, and the field numbers of TensorFlow's event.proto and summary.proto.
enum WireType : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5;
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, uint32_t field, WireType type) {
  put_varint(out, field << 3 | type);
}

template <typename T>
void put_fixed(std::string& out, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof value);
}

void put_bytes(std::string& out, uint32_t field, std::string_view value) {
  put_key(out, field, bytes);
  put_varint(out, value.size());
  out.append(value);
}

std::string event_at(double wall_time) {
  std::string event;
  put_key(event, kEventWallTime, fixed64);
  put_fixed(event, wall_time);
  return event;
}

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

/// The framing masks its sums, so that a sum over bytes that hold sums is not trivial.
uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = make_crc_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string tf_record(std::string_view payload) {
  std::string record;
  put_fixed<uint64_t>(record, payload.size());
  put_fixed(record, masked_crc32c(record));
  record.append(payload);
  put_fixed(record, masked_crc32c(payload));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = event_at(wall_time);
  put_bytes(event, kEventFileVersion, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, int64_t step, const Metrics& metrics) {
  std::string summary;
  for (const auto& [name, value] : metrics) {
    std::string scalar;
    put_bytes(scalar, kValueTag, name);
    put_key(scalar, kValueSimple, fixed32);
    put_fixed(scalar, static_cast<float>(value));
    put_bytes(summary, kSummaryValue, scalar);
  }
  std::string event = event_at(wall_time);
  put_key(event, kEventStep, varint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, kEventSummary, summary);
  return event;
}

}  // namespace trireme::observe
