// What collectives deliver: every type, counts of all kinds, rank order.
#pragma once

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/runtime/comm/conformance.h"

namespace trireme::comm::conformance {

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

TEST_P(CommunicatorTest, ReduceScatterVTakesUnevenAndEmptyParts) {
  run([this](Communicator& comm) {
    const auto check = [&]<typename T>(T, ReduceOp op) {
      for (const int64_t scale : {0, 1, 13, 9001}) {
        const auto counts = uneven_counts(comm, scale);
        const auto total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        const auto begin = std::accumulate(counts.begin(), counts.begin() + comm.rank(), int64_t{0});
        const auto in = elements<T>(comm.rank(), total);
        std::vector<T> out(counts[comm.rank()]);
        comm.reduce_scatter_v(view(comm, in), view(comm, out), counts, op);
        settle(comm);
        EXPECT_TRUE(same_bits(out, reduced<T>(comm.size(), counts[comm.rank()], op, begin))) << scale;
      }
    };
    check(float{}, ReduceOp::sum);
    check(Bf16{}, ReduceOp::sum);
    check(double{}, ReduceOp::sum);
    check(int32_t{}, ReduceOp::sum);
    check(int64_t{}, ReduceOp::min);
    check(uint8_t{}, ReduceOp::max);
  });
}

// What sequence-sharded layers rely on: bit for bit, however the rows are cut.
TEST_P(CommunicatorTest, ReduceScatterAndAllGatherMakeAnAllReduce) {
  run([this](Communicator& comm) {
    const auto check = [&]<typename T>(T) {
      for (const int64_t scale : {int64_t{1}, int64_t{77}, int64_t{30000}}) {
        const auto counts = uneven_counts(comm, scale);
        const auto total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        const auto in = elements<T>(comm.rank(), total);
        auto sum = in;
        comm.all_reduce(view(comm, sum));
        std::vector<T> part(counts[comm.rank()]), whole(total);
        comm.reduce_scatter_v(view(comm, in), view(comm, part), counts);
        comm.all_gather_v(view(comm, std::as_const(part)), view(comm, whole), counts);
        settle(comm);
        EXPECT_TRUE(same_bits(whole, sum)) << to_string(dtype_of<T>()) << " x " << total;

        const auto even = elements<T>(comm.rank(), scale * comm.size());
        sum = even;
        comm.all_reduce(view(comm, sum));
        part.resize(scale);
        whole.resize(even.size());
        comm.reduce_scatter(view(comm, even), view(comm, part));
        comm.all_gather(view(comm, std::as_const(part)), view(comm, whole));
        settle(comm);
        EXPECT_TRUE(same_bits(whole, sum)) << to_string(dtype_of<T>()) << " x " << even.size();
      }
    };
    check(float{});
    check(Bf16{});
    check(double{});
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
      const auto counts = uneven_counts(comm, scale);
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

}  // namespace trireme::comm::conformance
