// What every communicator must do, whatever carries it: the fixture. A test file includes
// conformance_suite.h once and instantiates the suite with its own ways of running ranks.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"
#include "tests/runtime/comm/rank_order_oracle.h"

namespace trireme::comm::conformance {

/// One way of running ranks.
struct Setting {
  std::string name;
  /// Runs the body on every rank of a new group; in this process that may be one of them.
  std::function<void(const std::function<void(Communicator&)>&)> run;
  /// Waits until what was enqueued has happened (communicators of a GPU).
  std::function<void(Communicator&)> settle = [](Communicator&) {};
  /// What a mismatch ends in where it is seen. Where that is not everywhere, the others hear of a failed
  /// peer.
  ErrorCode mismatch = ErrorCode::internal;
  bool all_see_a_mismatch = true;
  /// Whether messages are free: one side may group what the other does not, collectives may overtake them,
  /// and empty ones travel. NCCL promises none of that.
  bool free_messages = true;
};

inline void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

inline std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return info.param.name;
}

template <typename T>
BufferView view(const Communicator& comm, std::vector<T>& data) {
  return {data.data(), static_cast<int64_t>(data.size()), dtype_of<T>(), comm.device()};
}
template <typename T>
ConstBufferView view(const Communicator& comm, const std::vector<T>& data) {
  return {data.data(), static_cast<int64_t>(data.size()), dtype_of<T>(), comm.device()};
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline ErrorCode code_of(const std::function<void()>& body, std::string* text = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (text) *text = error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::invalid_config;
}

// Of an operation that ends in an error: messages may still arrive in it, so it is never freed.
template <typename T>
std::vector<T>& never_freed(int64_t count) {
  static std::mutex mutex;
  static auto* all = new std::deque<std::vector<T>>;
  std::lock_guard lock(mutex);
  return all->emplace_back(count);
}

// The last rank's part is empty, with more than one.
inline std::vector<int64_t> uneven_counts(const Communicator& comm, int64_t scale) {
  std::vector<int64_t> counts(comm.size(), scale);
  for (int r = 0; comm.size() > 1 && r < comm.size(); ++r) counts[r] = (r + 1) % comm.size() * scale;
  return counts;
}

// Around the limits of 64 KiB and 256 KiB, of one vector register, and of the small limits that tests set.
inline const std::vector<int64_t> kCounts{0, 1, 3, 7, 65, 999, 4097, 20011};
inline constexpr int64_t kLargeCount = 1'300'003;

class CommunicatorTest : public testing::TestWithParam<Setting> {
 protected:
  void run(const std::function<void(Communicator&)>& body) { GetParam().run(body); }
  void settle(Communicator& comm) { GetParam().settle(comm); }

  void expect_mismatch(ErrorCode code, const std::string& text) {
    if (!GetParam().all_see_a_mismatch && code == ErrorCode::peer_failed) return;
    EXPECT_STREQ(to_string(code), to_string(GetParam().mismatch)) << text;
  }

  template <typename T>
  void expect_all_reduce(Communicator& comm, int64_t count, ReduceOp op) {
    auto data = elements<T>(comm.rank(), count);
    comm.all_reduce(view(comm, data), op);
    settle(comm);
    EXPECT_TRUE(same_bits(data, reduced<T>(comm.size(), count, op)))
        << to_string(dtype_of<T>()) << " x " << count << " " << to_string(op) << " on rank " << comm.rank();
  }

  template <typename T>
  void expect_reduce_scatter(Communicator& comm, int64_t count, ReduceOp op) {
    const auto in = elements<T>(comm.rank(), count * comm.size());
    std::vector<T> out(count);
    comm.reduce_scatter(view(comm, in), view(comm, out), op);
    settle(comm);
    EXPECT_TRUE(same_bits(out, reduced<T>(comm.size(), count, op, comm.rank() * count)))
        << to_string(dtype_of<T>()) << " x " << count << " " << to_string(op) << " on rank " << comm.rank();
  }

  template <typename T>
  void expect_movement(Communicator& comm) {
    for (const int64_t count : kCounts) {
      for (int root = 0; root < comm.size(); ++root) {
        auto data = elements<T>(comm.rank(), count);
        comm.broadcast(view(comm, data), root);
        settle(comm);
        EXPECT_TRUE(same_bits(data, elements<T>(root, count))) << count << " from " << root;
      }
      const auto in = elements<T>(comm.rank(), count);
      std::vector<T> out(count * comm.size()), expected;
      for (int r = 0; r < comm.size(); ++r) {
        const auto part = elements<T>(r, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      comm.all_gather(view(comm, in), view(comm, out));
      settle(comm);
      EXPECT_TRUE(same_bits(out, expected)) << count;
    }
  }
};

}  // namespace trireme::comm::conformance
