#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/weights/safetensors.h"

namespace trireme::weights {
namespace {

constexpr uint64_t kHeaderAlignment = 8;  // with it, and wider types first, every tensor is aligned

uint64_t bytes_of(const TensorInfo& tensor) {
  uint64_t bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
  TRIREME_CHECK(bits != 0, "tensor {}: {} is no safetensors dtype", tensor.name, tensor.dtype);
  for (const int64_t extent : tensor.shape) bits *= static_cast<uint64_t>(extent);
  TRIREME_CHECK(bits % 8 == 0, "tensor {} does not end on a whole byte", tensor.name);
  return bits / 8;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), aside_(fmt::format("{}.{}.part", path_, ::getpid())) {
  std::ranges::stable_sort(tensors, std::greater{}, [](const TensorInfo& t) { return dtype_bits(t.dtype); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (TensorInfo& tensor : tensors) {
    tensor.begin = offset;
    tensor.end = offset += bytes_of(tensor);
    TRIREME_CHECK(waiting_.emplace(tensor.name, Waiting{tensor, tensor.num_bytes()}).second,
                  "two tensors are named {}", tensor.name);
  }
  // Built through a vector: an ordered object looks a key up in linear time.
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  for (const TensorInfo& tensor : tensors)
    entries.push_back({tensor.name, nlohmann::ordered_json{{"dtype", tensor.dtype},
                                                           {"shape", tensor.shape},
                                                           {"data_offsets", {tensor.begin, tensor.end}}}});
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');

  fd_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(ErrorCode::io, "cannot write {}: {}", aside_, std::strerror(errno));
  const uint64_t header_bytes = text.size();
  std::string start(sizeof header_bytes, '\0');
  std::memcpy(start.data(), &header_bytes, sizeof header_bytes);
  start += text;
  data_offset_ = start.size();
  try {
    write_at(0, std::as_bytes(std::span(start)));
  } catch (...) {  // no destructor runs for what was not constructed
    ::close(fd_);
    ::unlink(aside_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(aside_.c_str());
}

void SafetensorsWriter::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ErrorCode::io, "cannot write {}: {}", aside_, std::strerror(errno));
    offset += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void SafetensorsWriter::write(const std::string& name, std::span<const std::byte> bytes) {
  const auto found = waiting_.find(name);
  TRIREME_CHECK(found != waiting_.end(), "tensor {} was not announced or is written twice", name);
  TRIREME_CHECK(bytes.size() == found->second.missing, "tensor {} takes {} bytes, {} were given", name,
                found->second.missing, bytes.size());
  write_part(name, 0, bytes);
}

void SafetensorsWriter::write_part(const std::string& name, uint64_t offset,
                                   std::span<const std::byte> bytes) {
  const auto found = waiting_.find(name);
  TRIREME_CHECK(found != waiting_.end(), "tensor {} was not announced or is written twice", name);
  auto& [tensor, missing] = found->second;
  TRIREME_CHECK(bytes.size() <= missing && offset <= tensor.num_bytes() - bytes.size(),
                "tensor {} has {} bytes, {} are missing, {} were given from {} on", name, tensor.num_bytes(),
                missing, bytes.size(), offset);
  write_at(data_offset_ + tensor.begin + offset, bytes);
  missing -= bytes.size();
  if (missing == 0) waiting_.erase(found);
}

void SafetensorsWriter::finish() {
  TRIREME_CHECK(fd_ >= 0, "{} is finished already", path_);
  TRIREME_CHECK(waiting_.empty(), "{} bytes of tensor {} were not written", waiting_.begin()->second.missing,
                waiting_.begin()->first);
  if (::fsync(fd_) != 0) fail(ErrorCode::io, "cannot sync {}: {}", aside_, std::strerror(errno));
  if (std::rename(aside_.c_str(), path_.c_str()) != 0)
    fail(ErrorCode::io, "cannot rename {} to {}: {}", aside_, path_, std::strerror(errno));
  ::close(fd_);
  fd_ = -1;
  const auto folder = std::filesystem::path(path_).parent_path();
  files::sync_folder(folder.empty() ? "." : folder.string());
}

}  // namespace trireme::weights
