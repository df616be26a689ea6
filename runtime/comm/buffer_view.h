// A typed view of memory that a communicator moves: no Torch, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::comm {

enum class DType : uint8_t { u8, i32, i64, bf16, f32, f64 };
enum class Device : uint8_t { cpu, gpu };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return 1;
    case DType::bf16:
      return 2;
    case DType::i32:
    case DType::f32:
      return 4;
    default:
      return 8;
  }
}
const char* to_string(DType dtype);

/// `count` elements of `dtype` at `data`, contiguous, on `device`.
struct BufferView {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::u8;
  Device device = Device::cpu;

  size_t bytes() const { return static_cast<size_t>(count) * size_of(dtype); }
  /// Elements [begin, begin + n).
  BufferView slice(int64_t begin, int64_t n) const {
    return {static_cast<std::byte*>(data) + static_cast<size_t>(begin) * size_of(dtype), n, dtype, device};
  }
};

struct ConstBufferView {
  const void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::u8;
  Device device = Device::cpu;

  ConstBufferView() = default;
  ConstBufferView(const void* d, int64_t n, DType t, Device where = Device::cpu)
      : data(d), count(n), dtype(t), device(where) {}
  ConstBufferView(const BufferView& view)  // NOLINT: reading what may be written is always fine
      : data(view.data), count(view.count), dtype(view.dtype), device(view.device) {}

  size_t bytes() const { return static_cast<size_t>(count) * size_of(dtype); }
  ConstBufferView slice(int64_t begin, int64_t n) const {
    return {static_cast<const std::byte*>(data) + static_cast<size_t>(begin) * size_of(dtype), n, dtype,
            device};
  }
};

}  // namespace trireme::comm
