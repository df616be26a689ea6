#include "trainer/commands/comm_operations.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

bool has_parts(CommOperation operation) {
  return operation == CommOperation::reduce_scatter || operation == CommOperation::all_gather ||
         operation == CommOperation::all_to_all_v;
}

template <typename T>
void put(std::vector<std::byte>& bytes, int64_t i, T value) {
  std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
}

// bf16 is exact up to 256.
void put_number(std::vector<std::byte>& bytes, int64_t i, int value, comm::DType dtype) {
  switch (dtype) {
    case comm::DType::u8:
      return put(bytes, i, static_cast<uint8_t>(value));
    case comm::DType::i32:
      return put(bytes, i, int32_t{value});
    case comm::DType::i64:
      return put(bytes, i, int64_t{value});
    case comm::DType::bf16: {
      const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      return put(bytes, i, static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
    }
    case comm::DType::f32:
      return put(bytes, i, static_cast<float>(value));
    case comm::DType::f64:
      return put(bytes, i, static_cast<double>(value));
  }
}

}  // namespace

const char* to_string(CommOperation operation) {
  switch (operation) {
    case CommOperation::all_reduce:
      return "all_reduce";
    case CommOperation::reduce_scatter:
      return "reduce_scatter";
    case CommOperation::all_gather:
      return "all_gather";
    case CommOperation::broadcast:
      return "broadcast";
    case CommOperation::all_to_all_v:
      return "all_to_all_v";
    case CommOperation::send_recv:
      return "send_recv";
  }
  return "unknown operation";
}

double bus_factor(CommOperation operation, int num_ranks) {
  const double n = num_ranks;
  switch (operation) {
    case CommOperation::all_reduce:
      return 2 * (n - 1) / n;
    case CommOperation::reduce_scatter:
    case CommOperation::all_gather:
    case CommOperation::all_to_all_v:
      return (n - 1) / n;
    case CommOperation::broadcast:
    case CommOperation::send_recv:
      break;
  }
  return 1;
}

CommBuffer::CommBuffer(comm::Device device, size_t bytes) : bytes_(bytes) {
  if (device == comm::Device::gpu)
    gpu_ = comm::gpu_calls()->allocate(bytes);
  else
    host_.resize(bytes);
}

CommBuffer::~CommBuffer() {
  try {
    if (gpu_) comm::gpu_calls()->free(gpu_);
  } catch (const Error&) {  // a failed GPU has nothing left to give back
  }
}

void CommBuffer::write(const std::vector<std::byte>& bytes) {
  TRIREME_CHECK(bytes.size() == bytes_, "{} bytes into a buffer of {}", bytes.size(), bytes_);
  if (!gpu_) {
    host_ = bytes;
    return;
  }
  comm::gpu_calls()->copy(gpu_, bytes.data(), bytes_, nullptr);
  comm::gpu_calls()->synchronize(nullptr);
}

std::vector<std::byte> CommBuffer::read() {
  if (!gpu_) return host_;
  std::vector<std::byte> bytes(bytes_);
  comm::gpu_calls()->copy(bytes.data(), gpu_, bytes_, nullptr);
  comm::gpu_calls()->synchronize(nullptr);
  return bytes;
}

CommContest::CommContest(comm::Communicator& comm, CommOperation operation, comm::DType dtype, int64_t bytes)
    : comm_(comm), operation_(operation), dtype_(dtype) {
  const auto width = static_cast<int64_t>(comm::size_of(dtype));
  count_ = bytes / width / (has_parts(operation) ? comm.size() : 1);
  in_.emplace(comm.device(), in_count() * width);
  if (!in_place()) out_.emplace(comm.device(), out_count() * width);
}

int64_t CommContest::bytes() const {
  return std::max(in_count(), out_count()) * static_cast<int64_t>(comm::size_of(dtype_));
}

std::optional<comm::ReduceOp> CommContest::op() const {
  if (operation_ != CommOperation::all_reduce && operation_ != CommOperation::reduce_scatter)
    return std::nullopt;
  return dtype_ == comm::DType::u8 ? comm::ReduceOp::max : comm::ReduceOp::sum;
}

bool CommContest::in_place() const {
  return operation_ == CommOperation::all_reduce || operation_ == CommOperation::broadcast;
}

int64_t CommContest::in_count() const {
  return has_parts(operation_) && operation_ != CommOperation::all_gather ? count_ * comm_.size() : count_;
}

int64_t CommContest::out_count() const {
  return has_parts(operation_) && operation_ != CommOperation::reduce_scatter ? count_ * comm_.size()
                                                                              : count_;
}

void CommContest::run() {
  const comm::BufferView in{in_->data(), in_count(), dtype_, comm_.device()};
  const comm::BufferView out =
      in_place() ? in : comm::BufferView{out_->data(), out_count(), dtype_, comm_.device()};
  switch (operation_) {
    case CommOperation::all_reduce:
      return comm_.all_reduce(in, *op());
    case CommOperation::reduce_scatter:
      return comm_.reduce_scatter(in, out, *op());
    case CommOperation::all_gather:
      return comm_.all_gather(in, out);
    case CommOperation::broadcast:
      return comm_.broadcast(in, root());
    case CommOperation::all_to_all_v: {
      const std::vector<int64_t> counts(comm_.size(), count_);
      return comm_.all_to_all_v(in, counts, out, counts);
    }
    case CommOperation::send_recv: {
      const comm::Send send[] = {{(comm_.rank() + 1) % comm_.size(), in}};
      const comm::Receive receive[] = {{(comm_.rank() + comm_.size() - 1) % comm_.size(), out}};
      return comm_.send_recv(send, receive);
    }
  }
}

// Small, so that their sums are exact in any order and type; of a period that no power of two divides.
int CommContest::in_value(int rank, int64_t i) const {
  return static_cast<int>((i + 2 * rank) % 3) + (rank == 0 ? 1 : 0);
}

int CommContest::out_value(int64_t i) const {
  const int n = comm_.size(), me = comm_.rank();
  switch (operation_) {
    case CommOperation::broadcast:
      return in_value(root(), i);
    case CommOperation::all_gather:
      return in_value(static_cast<int>(i / count_), i % count_);
    case CommOperation::all_to_all_v:
      return in_value(static_cast<int>(i / count_), me * count_ + i % count_);
    case CommOperation::send_recv:
      return in_value((me + n - 1) % n, i);
    case CommOperation::all_reduce:
    case CommOperation::reduce_scatter:
      break;
  }
  const int64_t at = operation_ == CommOperation::reduce_scatter ? me * count_ + i : i;
  int sum = 0, most = 0;
  for (int r = 0; r < n; ++r) {
    sum += in_value(r, at);
    most = std::max(most, in_value(r, at));
  }
  return *op() == comm::ReduceOp::sum ? sum : most;
}

std::vector<std::byte> CommContest::encode(int64_t count, const std::function<int(int64_t)>& value) const {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * comm::size_of(dtype_));
  for (int64_t i = 0; i < count; ++i) put_number(bytes, i, value(i), dtype_);
  return bytes;
}

int64_t CommContest::count_wrong() {
  in_->write(encode(in_count(), [&](int64_t i) { return in_value(comm_.rank(), i); }));
  CommBuffer& result = in_place() ? *in_ : *out_;
  if (!in_place()) out_->write(encode(out_count(), [](int64_t) { return 99; }));
  run();
  const auto found = result.read();
  const auto expected = encode(out_count(), [&](int64_t i) { return out_value(i); });
  const size_t width = comm::size_of(dtype_);
  int64_t wrong = 0;
  for (size_t at = 0; at < found.size(); at += width)
    wrong += std::memcmp(found.data() + at, expected.data() + at, width) != 0;
  in_->write(std::vector<std::byte>(static_cast<size_t>(in_count()) * width));
  return wrong;
}

}  // namespace trireme::commands
