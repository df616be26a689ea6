// The safetensors format alone: 8 bytes of header length (little-endian), a JSON header, the tensors' bytes.
// Knows names, types and offsets; what a tensor means is the caller's business. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::weights {

/// One tensor of a file. Row-major, little-endian.
struct TensorInfo {
  std::string name;
  std::string dtype;           // the format's word: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;  // empty: a scalar
  uint64_t begin = 0;          // bytes, from the end of the header
  uint64_t end = 0;

  uint64_t num_bytes() const { return end - begin; }
};

/// Bits of one element, or 0 if the format has no such type.
int64_t dtype_bits(std::string_view dtype);

/// An open file. The header is checked as a whole when it is opened: after that every tensor lies within the
/// file, none overlap, and its bytes are as many as its shape says. Only what is asked for is read, straight
/// to where it is wanted: no mapping, whose pages would count as this process's memory. Reading is
/// thread-safe.
class SafetensorsReader {
 public:
  /// Throws io if it cannot be read, corrupt_data naming file and tensor if it makes no sense.
  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::string& path() const { return path_; }
  /// In the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// Null if there is none of that name.
  const TensorInfo* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Fills `into` with the tensor's bytes from its byte `offset` on. Throws io; corrupt_data if the file was
  /// cut short since it was opened.
  void read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> into) const;

 private:
  void open(uint64_t file_bytes);
  void check_layout(uint64_t data_bytes);
  void read_at(uint64_t offset, std::span<std::byte> into) const;

  std::string path_;
  int fd_ = -1;
  uint64_t data_offset_ = 0;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a file in any order, beside its final name; finish() puts it there. Wider types
/// come first in the file, so that every tensor is aligned to its type.
class SafetensorsWriter {
 public:
  /// begin and end of `tensors` are ignored. Throws io; internal if two have one name or a type is unknown.
  SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  /// Removes what was written if finish() was not reached.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Once per tensor. Throws io; internal if the size is not the shape's.
  void write(const std::string& name, std::span<const std::byte> bytes);
  /// A part of a tensor, from its byte `offset` on; in any order, each byte once. Throws io; internal if it
  /// is more than the tensor has left.
  void write_part(const std::string& name, uint64_t offset, std::span<const std::byte> bytes);
  /// Syncs and renames. Throws io; internal if a byte was not written.
  void finish();

 private:
  void write_at(uint64_t offset, std::span<const std::byte> bytes);

  std::string path_, aside_;
  int fd_ = -1;
  uint64_t data_offset_ = 0;
  struct Waiting {
    TensorInfo tensor;
    uint64_t missing = 0;  // bytes
  };
  std::map<std::string, Waiting> waiting_;
};

}  // namespace trireme::weights
