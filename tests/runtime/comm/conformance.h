// What every communicator must do, whatever carries it. A test file includes this once and instantiates
// the suite with its own ways of running ranks.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
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

TEST_P(CommunicatorTest, KnowsItsPlace) {
  run([](Communicator& comm) {
    EXPECT_GE(comm.rank(), 0);
    EXPECT_LT(comm.rank(), comm.size());
    EXPECT_FALSE(comm.name().empty());
    EXPECT_EQ(comm.host().device(), Device::cpu);
    EXPECT_EQ(comm.host().rank(), comm.rank());
    EXPECT_EQ(comm.abort_reason(), "");
  });
}

TEST_P(CommunicatorTest, BarrierFollowsBarrier) {
  run([this](Communicator& comm) {
    for (int i = 0; i < 100; ++i) comm.barrier();
    settle(comm);
  });
}

TEST_P(CommunicatorTest, AllReduceAddsInRankOrder) {
  run([this](Communicator& comm) {
    for (const int64_t count : kCounts) {
      expect_all_reduce<float>(comm, count, ReduceOp::sum);
      expect_all_reduce<double>(comm, count, ReduceOp::sum);
      expect_all_reduce<Bf16>(comm, count, ReduceOp::sum);
      expect_all_reduce<int32_t>(comm, count, ReduceOp::sum);
      expect_all_reduce<int64_t>(comm, count, ReduceOp::sum);
    }
  });
}

TEST_P(CommunicatorTest, AllReduceFindsMaximaAndMinima) {
  run([this](Communicator& comm) {
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min})
      for (const int64_t count : {int64_t{0}, int64_t{5}, int64_t{4097}}) {
        expect_all_reduce<uint8_t>(comm, count, op);
        expect_all_reduce<int32_t>(comm, count, op);
        expect_all_reduce<int64_t>(comm, count, op);
        expect_all_reduce<Bf16>(comm, count, op);
        expect_all_reduce<float>(comm, count, op);
        expect_all_reduce<double>(comm, count, op);
      }
  });
}

TEST_P(CommunicatorTest, ReduceScatterLeavesEachRankItsPart) {
  run([this](Communicator& comm) {
    for (const int64_t count : kCounts) {
      expect_reduce_scatter<float>(comm, count, ReduceOp::sum);
      expect_reduce_scatter<Bf16>(comm, count, ReduceOp::sum);
      expect_reduce_scatter<int64_t>(comm, count, ReduceOp::sum);
      expect_reduce_scatter<uint8_t>(comm, count, ReduceOp::max);
      expect_reduce_scatter<double>(comm, count, ReduceOp::min);
    }
  });
}

TEST_P(CommunicatorTest, BroadcastAndAllGatherMoveEveryType) {
  run([this](Communicator& comm) {
    expect_movement<uint8_t>(comm);
    expect_movement<int32_t>(comm);
    expect_movement<int64_t>(comm);
    expect_movement<Bf16>(comm);
    expect_movement<float>(comm);
    expect_movement<double>(comm);
  });
}

TEST_P(CommunicatorTest, LargePayloadsArriveWhole) {
  run([this](Communicator& comm) {
    expect_all_reduce<float>(comm, kLargeCount, ReduceOp::sum);
    expect_all_reduce<Bf16>(comm, kLargeCount, ReduceOp::sum);
    expect_reduce_scatter<float>(comm, kLargeCount / comm.size(), ReduceOp::sum);
    for (int root = 0; root < comm.size(); ++root) {
      auto data = elements<float>(comm.rank(), kLargeCount);
      comm.broadcast(view(comm, data), root);
      settle(comm);
      EXPECT_TRUE(same_bits(data, elements<float>(root, kLargeCount)));
    }
  });
}

TEST_P(CommunicatorTest, AllGatherVTakesUnevenAndEmptyParts) {
  run([this](Communicator& comm) {
    for (const int64_t scale : {1, 13, 5000}) {
      std::vector<int64_t> counts(comm.size());
      for (int r = 0; r < comm.size(); ++r)
        counts[r] = (r + 1) % comm.size() * scale;  // the last gives nothing
      const auto in = elements<float>(comm.rank(), counts[comm.rank()]);
      std::vector<float> out(std::accumulate(counts.begin(), counts.end(), int64_t{0})), expected;
      for (int r = 0; r < comm.size(); ++r) {
        const auto part = elements<float>(r, counts[r]);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      comm.all_gather_v(view(comm, in), view(comm, out), counts);
      settle(comm);
      EXPECT_TRUE(same_bits(out, expected)) << scale;
    }
  });
}

TEST_P(CommunicatorTest, AllGatherWorksInPlace) {
  run([this](Communicator& comm) {
    for (const int64_t count : {int64_t{3}, int64_t{30000}}) {
      std::vector<int64_t> out(count * comm.size()), expected;
      for (int r = 0; r < comm.size(); ++r) {
        const auto part = elements<int64_t>(r, count);
        expected.insert(expected.end(), part.begin(), part.end());
        if (r == comm.rank()) std::copy(part.begin(), part.end(), out.begin() + r * count);
      }
      const BufferView all = view(comm, out);
      comm.all_gather(all.slice(comm.rank() * count, count), all);
      settle(comm);
      EXPECT_TRUE(same_bits(out, expected));
    }
  });
}

TEST_P(CommunicatorTest, AllToAllVDeliversUnevenParts) {
  run([this](Communicator& comm) {
    const int n = comm.size();
    // From s to d; some pairs exchange nothing.
    const auto amount = [&](int s, int d, int64_t scale) { return (s * 3 + d * 5) % 4 * scale; };
    for (const int64_t scale : {1, 17, 9000}) {
      std::vector<int64_t> sent(n), received(n), expected;
      for (int r = 0; r < n; ++r) {
        sent[r] = amount(comm.rank(), r, scale);
        received[r] = amount(r, comm.rank(), scale);
        const auto part = elements<int64_t>(r * n + comm.rank(), received[r]);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      std::vector<int64_t> in, out(expected.size());
      for (int d = 0; d < n; ++d) {
        const auto part = elements<int64_t>(comm.rank() * n + d, sent[d]);
        in.insert(in.end(), part.begin(), part.end());
      }
      comm.all_to_all_v(view(comm, std::as_const(in)), sent, view(comm, out), received);
      settle(comm);
      EXPECT_TRUE(same_bits(out, expected)) << scale << " on rank " << comm.rank();
    }
  });
}

TEST_P(CommunicatorTest, AsyncOperationsOverlapAndEndInAnyOrder) {
  run([this](Communicator& comm) {
    constexpr int kMany = 8;
    std::vector<std::vector<float>> sums, copies;
    std::vector<WorkHandle> work;
    for (int k = 0; k < kMany; ++k) {
      sums.push_back(elements<float>(comm.rank(), 1000 + 5000 * k, k));
      copies.push_back(elements<float>(comm.rank(), 10 + 7000 * k, k));
    }
    for (int k = 0; k < kMany; ++k) {
      work.push_back(comm.all_reduce_async(view(comm, sums[k])));
      work.push_back(comm.broadcast_async(view(comm, copies[k]), k % comm.size()));
    }
    expect_all_reduce<double>(comm, 333, ReduceOp::sum);  // a blocking one among them
    while (!work.empty()) {
      work.back()->wait();
      EXPECT_TRUE(work.back()->done());
      work.pop_back();
    }
    settle(comm);
    for (int k = 0; k < kMany; ++k) {
      EXPECT_TRUE(same_bits(sums[k], reduced<float>(comm.size(), 1000 + 5000 * k, ReduceOp::sum, k)));
      EXPECT_TRUE(same_bits(copies[k], elements<float>(k % comm.size(), 10 + 7000 * k, k)));
    }
  });
}

TEST_P(CommunicatorTest, DestroyedWorkHasFinished) {
  run([this](Communicator& comm) {
    auto data = elements<float>(comm.rank(), 40000);
    comm.all_reduce_async(view(comm, data)).reset();
    settle(comm);
    EXPECT_TRUE(same_bits(data, reduced<float>(comm.size(), 40000, ReduceOp::sum)));
  });
}

TEST_P(CommunicatorTest, ANanWinsEveryReduction) {
  run([this](Communicator& comm) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
      for (int bearer = 0; bearer < comm.size(); ++bearer) {
        std::vector<float> data{comm.rank() == bearer ? std::numeric_limits<float>::quiet_NaN() : 1.0f};
        comm.all_reduce(view(comm, data), op);
        settle(comm);
        EXPECT_TRUE(std::isnan(data[0])) << to_string(op) << " from " << bearer;
      }
  });
}

TEST_P(CommunicatorTest, StringsAndScalarsCross) {
  run([](Communicator& comm) {
    const auto text = [](int r) {
      return r == 1 ? std::string() : "rank " + std::to_string(r) + std::string(r * 9000, 'x');
    };
    const auto all = comm.all_gather_strings(text(comm.rank()));
    ASSERT_EQ(static_cast<int>(all.size()), comm.size());
    for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(all[r], text(r));
    const int last = comm.size() - 1;
    EXPECT_EQ(comm.broadcast_string(text(comm.rank()), last), text(last));
    EXPECT_EQ(comm.broadcast_string("", 0), "");
    EXPECT_EQ(comm.all_reduce_scalar(comm.rank() + 0.5), comm.size() * comm.size() / 2.0);
    EXPECT_EQ(comm.all_reduce_scalar(comm.rank(), ReduceOp::max), last);
  });
}

TEST_P(CommunicatorTest, MisuseIsSeenBeforeAnythingMoves) {
  run([this](Communicator& comm) {
    std::vector<float> in(6), out(5);
    const auto expect_internal = [](const std::function<void()>& call) {
      EXPECT_EQ(code_of(call), ErrorCode::internal);
    };
    const Device elsewhere = comm.device() == Device::cpu ? Device::gpu : Device::cpu;
    expect_internal([&] { comm.broadcast(view(comm, in), comm.size()); });
    expect_internal([&] { comm.broadcast(view(comm, in), -1); });
    expect_internal([&] { comm.all_reduce({in.data(), 6, DType::u8, comm.device()}); });
    expect_internal([&] { comm.all_reduce({in.data(), 6, DType::f32, elsewhere}); });
    expect_internal([&] { comm.all_reduce({nullptr, 6, DType::f32, comm.device()}); });
    expect_internal([&] { comm.all_gather(view(comm, std::as_const(in)), view(comm, out)); });
    expect_internal([&] {
      comm.all_gather_v(view(comm, std::as_const(in)), view(comm, out),
                        std::vector<int64_t>(comm.size() + 1));
    });
    expect_internal([&] {
      comm.all_gather_v(view(comm, std::as_const(in)), view(comm, out),
                        std::vector<int64_t>(comm.size(), -1));
    });
    expect_internal([&] { comm.reduce_scatter(view(comm, std::as_const(out)), view(comm, in)); });
    expect_internal([&] {
      const std::vector<int64_t> ones(comm.size(), 1);
      comm.all_to_all_v(view(comm, std::as_const(in)), ones, view(comm, out),
                        std::vector<int64_t>(comm.size(), 2));
    });
    expect_all_reduce<float>(comm, 100, ReduceOp::sum);  // and nobody is out of step
  });
}

TEST_P(CommunicatorTest, DifferentOperationsEndInAnErrorOnAllRanks) {
  run([this](Communicator& comm) {
    if (comm.size() == 1) return;
    std::vector<float> data(10);
    std::string text;
    const ErrorCode code = code_of(
        [&] {
          if (comm.rank() == 0)
            comm.barrier();
          else
            comm.all_reduce(view(comm, data));
          settle(comm);
          comm.barrier();  // what a GPU only enqueued shows in the next call
        },
        &text);
    expect_mismatch(code, text);
    EXPECT_NE(comm.abort_reason(), "");
  });
}

TEST_P(CommunicatorTest, DifferentCountsEndInAnErrorOnAllRanks) {
  for (const int64_t count : {10, 100000}) {  // small and small, small and large
    run([&](Communicator& comm) {
      if (comm.size() == 1) return;
      std::vector<float> data(comm.rank() == 0 ? count : 12);
      std::string text;
      const ErrorCode code = code_of(
          [&] {
            comm.all_reduce(view(comm, data));
            settle(comm);
            comm.barrier();
          },
          &text);
      expect_mismatch(code, text);
    });
  }
}

TEST_P(CommunicatorTest, AbortOnOneRankWakesAllThatWait) {
  run([this](Communicator& comm) {
    if (comm.size() == 1) return;
    std::vector<float> data(100000);
    std::string text;
    if (comm.rank() == comm.size() - 1) {
      comm.barrier();
      comm.abort("the watchdog says so");
    } else {
      const ErrorCode code = code_of(
          [&] {
            comm.barrier();  // the abort may come before it has returned here
            comm.all_reduce(view(comm, data));
            settle(comm);
            comm.barrier();
          },
          &text);
      EXPECT_EQ(code, ErrorCode::peer_failed) << text;
      EXPECT_NE(text.find("the watchdog says so"), std::string::npos) << text;
    }
    EXPECT_EQ(code_of([&] {
                comm.barrier();
                settle(comm);
              }),
              ErrorCode::peer_failed);
  });
}

TEST_P(CommunicatorTest, AbortFromAnotherThreadEndsACollectiveUnderWay) {
  run([this](Communicator& comm) {
    if (comm.size() == 1) return;
    if (comm.rank() != 0) {
      EXPECT_EQ(code_of([&] {
                  while (true) {
                    comm.barrier();
                    settle(comm);
                  }
                }),
                ErrorCode::peer_failed);
      return;
    }
    std::vector<float> data(10);
    comm.barrier();
    std::thread watchdog([&] { comm.abort("enough"); });
    EXPECT_EQ(code_of([&] {
                while (true) {
                  comm.barrier();
                  settle(comm);
                }
              }),
              ErrorCode::peer_failed);
    watchdog.join();
  });
}

}  // namespace trireme::comm::conformance
