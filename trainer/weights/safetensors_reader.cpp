#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "trainer/weights/safetensors.h"

namespace trireme::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are taken as they lie in the file");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr const char* kMetadataKey = "__metadata__";

[[noreturn]] void corrupt(const std::string& path, const std::string& what) {
  fail(ErrorCode::corrupt_data, "{}: {}", path, what);
}

// Names come from the file: no control characters or endless lines in a message.
std::string shown(const std::string& name) {
  const std::string text =
      nlohmann::json(name.substr(0, 200)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return name.size() > 200 ? text + "..." : text;
}

/// Refuses what a JSON parser would silently accept: a key twice in one object, and deep nesting.
nlohmann::json parse_header(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > 4) corrupt(path, "the header is nested too deeply");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      corrupt(path, fmt::format("the header says {} twice", shown(parsed.get<std::string>())));
    return true;
  };
  try {
    auto header = nlohmann::json::parse(text.begin(), text.end(), check);
    if (!header.is_object()) corrupt(path, "the header is not a JSON object");
    return header;
  } catch (const nlohmann::json::parse_error& error) {  // its text quotes bytes that may be no text
    corrupt(path, fmt::format("the header is not valid JSON: see its byte {}", error.byte));
  } catch (const nlohmann::json::exception&) {
    corrupt(path, "the header is not valid JSON: a number is too large");
  }
}

TensorInfo parse_tensor(const std::string& path, const std::string& name, const nlohmann::json& value) {
  const auto refuse = [&](const std::string& what) {
    corrupt(path, fmt::format("tensor {}: {}", shown(name), what));
  };
  if (!value.is_object()) refuse("its entry is not an object");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!value.contains(key)) refuse(fmt::format("{} is missing", key));
  TensorInfo tensor;
  tensor.name = name;
  if (!value["dtype"].is_string() || dtype_bits(value["dtype"].get<std::string>()) == 0)
    refuse(fmt::format("dtype {} is none of the format's", shown(value["dtype"].dump())));
  tensor.dtype = value["dtype"].get<std::string>();

  const auto is_count = [](const nlohmann::json& number) {
    return number.is_number_unsigned() && number.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  };
  if (!value["shape"].is_array() || !std::ranges::all_of(value["shape"], is_count))
    refuse("its shape is not a list of whole numbers");
  tensor.shape = value["shape"].get<std::vector<int64_t>>();
  uint64_t bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
  for (const int64_t extent : tensor.shape)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits)) refuse("its shape is too large");
  if (bits % 8 != 0) refuse("it does not end on a whole byte");

  const auto& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !std::ranges::all_of(offsets, is_count))
    refuse("data_offsets is not a pair of whole numbers");
  tensor.begin = offsets[0].get<uint64_t>();
  tensor.end = offsets[1].get<uint64_t>();
  if (tensor.end < tensor.begin) refuse("it ends before it begins");
  if (tensor.num_bytes() != bits / 8)
    refuse(fmt::format("shape [{}] of {} takes {} bytes, its offsets give it {}",
                       fmt::join(tensor.shape, ", "), tensor.dtype, bits / 8, tensor.num_bytes()));
  return tensor;
}

}  // namespace

int64_t dtype_bits(std::string_view dtype) {
  static const std::map<std::string_view, int64_t> bits = {
      {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
      {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
      {"F32", 32}, {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64}};
  const auto found = bits.find(dtype);
  return found == bits.end() ? 0 : found->second;
}

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(ErrorCode::io, "cannot read {}: {}", path, std::strerror(errno));
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) fail(ErrorCode::io, "cannot read {}: {}", path, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail(ErrorCode::io, "cannot read {}: it is not a file", path);
    open(static_cast<uint64_t>(status.st_size));
  } catch (...) {  // no destructor runs for what was not constructed
    ::close(fd_);
    throw;
  }
}

void SafetensorsReader::open(uint64_t file_bytes) {
  if (file_bytes < kLengthBytes)
    corrupt(path_, fmt::format("has {} bytes, too few for a safetensors file", file_bytes));
  uint64_t header_bytes = 0;
  read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > kMaxHeaderBytes)
    corrupt(path_,
            fmt::format("its header of {} bytes is larger than the format allows; is it a safetensors file?",
                        header_bytes));
  if (header_bytes > file_bytes - kLengthBytes)
    corrupt(path_, fmt::format("is cut short: it has {} bytes, its header alone takes {}", file_bytes,
                               kLengthBytes + header_bytes));
  data_offset_ = kLengthBytes + header_bytes;
  std::string text(header_bytes, '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const nlohmann::json header = parse_header(path_, text);
  for (const auto& [name, value] : header.items()) {
    if (name != kMetadataKey) {
      tensors_.push_back(parse_tensor(path_, name, value));
      continue;
    }
    const auto is_string = [](const nlohmann::json& text) { return text.is_string(); };
    if (!value.is_object() || !std::ranges::all_of(value, is_string))
      corrupt(path_, "__metadata__ is not an object of strings");
    metadata_ = value.get<std::map<std::string, std::string>>();
  }
  check_layout(file_bytes - data_offset_);
}

// The bytes after the header belong to exactly one tensor each.
void SafetensorsReader::check_layout(uint64_t data_bytes) {
  std::ranges::sort(tensors_, [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t covered = 0;
  std::string before;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorInfo& tensor = tensors_[i];
    if (tensor.end > data_bytes)
      corrupt(path_, fmt::format("is cut short or wrong: tensor {} ends at byte {} of the data, there are {}",
                                 shown(tensor.name), tensor.end, data_bytes));
    if (tensor.begin < covered)
      corrupt(path_, fmt::format("tensor {} overlaps {}", shown(tensor.name), shown(before)));
    if (tensor.begin > covered)
      corrupt(path_, fmt::format("{} bytes before tensor {} belong to none", tensor.begin - covered,
                                 shown(tensor.name)));
    covered = tensor.end;
    before = tensor.name;
    index_.emplace(tensor.name, i);
  }
  if (covered != data_bytes)
    corrupt(path_, fmt::format("{} bytes at its end belong to no tensor", data_bytes - covered));
}

SafetensorsReader::~SafetensorsReader() {
  ::close(fd_);
}

const TensorInfo* SafetensorsReader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsReader::read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> into) const {
  TRIREME_CHECK(offset <= tensor.num_bytes() && into.size() <= tensor.num_bytes() - offset,
                "tensor {}: bytes {} to {} are asked for, it has {}", tensor.name, offset,
                offset + into.size(), tensor.num_bytes());
  read_at(data_offset_ + tensor.begin + offset, into);
}

void SafetensorsReader::read_at(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t n = ::pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ErrorCode::io, "cannot read {}: {}", path_, std::strerror(errno));
    if (n == 0) corrupt(path_, "was cut short while it was read");
    offset += static_cast<uint64_t>(n);
    into = into.subspan(static_cast<size_t>(n));
  }
}

}  // namespace trireme::weights
