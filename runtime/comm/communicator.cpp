#include "runtime/comm/communicator.h"

#include <cstring>

namespace trireme::comm {

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
  }
  return "unknown dtype";
}

const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  return "unknown reduction";
}

std::vector<std::string> Communicator::all_gather_strings(const std::string& mine) {
  const int64_t length = static_cast<int64_t>(mine.size());
  std::vector<int64_t> lengths(size());
  host().all_gather({&length, 1, DType::i64}, {lengths.data(), size(), DType::i64});
  int64_t total = 0;
  for (const int64_t n : lengths) total += n;
  std::string all(total, '\0');
  host().all_gather_v({mine.data(), length, DType::u8}, {all.data(), total, DType::u8}, lengths);
  std::vector<std::string> result;
  int64_t begin = 0;
  for (const int64_t n : lengths) {
    result.push_back(all.substr(begin, n));
    begin += n;
  }
  return result;
}

std::string Communicator::broadcast_string(const std::string& mine, int root) {
  int64_t length = static_cast<int64_t>(mine.size());
  host().broadcast({&length, 1, DType::i64}, root);
  std::string text = rank() == root ? mine : std::string(length, '\0');
  host().broadcast({text.data(), length, DType::u8}, root);
  return text;
}

double Communicator::all_reduce_scalar(double value, ReduceOp op) {
  host().all_reduce({&value, 1, DType::f64}, op);
  return value;
}

}  // namespace trireme::comm
