// What send_recv delivers.
#pragma once

#include <utility>

#include "tests/runtime/comm/conformance.h"

namespace trireme::comm::conformance {

// Message k from s to d: some empty, some of one element, some of many.
inline int64_t message_count(int s, int d, int k) {
  constexpr int64_t kSizes[] = {0, 1, 37, 1000, 4099, 70001};
  return kSizes[(s * 7 + d * 3 + k) % 6];
}
inline int message_key(int s, int d, int k) {
  return (s * 16 + d) * 16 + k;
}

template <typename T>
class Messages {
 public:
  Messages(Communicator& comm, const std::vector<std::pair<int, int>>& pairs, int first, int count)
      : comm_(comm) {
    for (int k = first; k < first + count; ++k)
      for (const auto& [s, d] : pairs) {
        if (s == comm.rank())
          add(sent_, sends_, d, elements<T>(message_key(s, d, k), message_count(s, d, k)));
        if (d != comm.rank()) continue;
        add(received_, receives_, s, std::vector<T>(message_count(s, d, k)));
        expected_.push_back(elements<T>(message_key(s, d, k), message_count(s, d, k)));
      }
  }
  WorkHandle start() { return comm_.send_recv_async(sends_, receives_); }
  void move() { comm_.send_recv(sends_, receives_); }
  bool empty() const { return sends_.empty() && receives_.empty(); }
  void expect_delivered() const {
    for (size_t i = 0; i < expected_.size(); ++i)
      EXPECT_TRUE(same_bits(received_[i], expected_[i]))
          << to_string(dtype_of<T>()) << ": message " << i << " from " << receives_[i].from << " to "
          << comm_.rank();
  }

 private:
  template <typename Message>
  void add(std::deque<std::vector<T>>& store, std::vector<Message>& list, int peer, std::vector<T> data) {
    store.push_back(std::move(data));
    list.push_back({peer, view(comm_, store.back())});
  }

  Communicator& comm_;
  std::deque<std::vector<T>> sent_, received_;
  std::vector<std::vector<T>> expected_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
};

inline std::vector<std::pair<int, int>> all_pairs(const Communicator& comm) {
  std::vector<std::pair<int, int>> pairs;
  for (int s = 0; s < comm.size(); ++s)
    for (int d = 0; d < comm.size(); ++d) pairs.emplace_back(s, d);  // to itself too
  return pairs;
}

TEST_P(CommunicatorTest, SendRecvDeliversEveryTypeInTheOrderGiven) {
  run([this](Communicator& comm) {
    const auto check = [&]<typename T>(T) {
      Messages<T> messages(comm, all_pairs(comm), 0, 4);
      messages.move();
      settle(comm);
      messages.expect_delivered();
    };
    check(uint8_t{});
    check(int32_t{});
    check(int64_t{});
    check(Bf16{});
    check(float{});
    check(double{});
  });
}

TEST_P(CommunicatorTest, SendRecvNeedsOnlyTheRanksConcerned) {
  run([this](Communicator& comm) {
    // Neighbours, while the others stay away or call with empty lists; then everybody meets.
    for (int s = 0; s + 1 < comm.size(); ++s) {
      Messages<float> messages(comm, {{s, s + 1}}, s, 3);
      if (!messages.empty() || comm.rank() % 2) messages.move();
      settle(comm);
      messages.expect_delivered();
    }
    comm.send_recv({}, {});
    expect_all_reduce<float>(comm, 100, ReduceOp::sum);
  });
}

TEST_P(CommunicatorTest, SeveralSendRecvsAreUnderWayAmongCollectives) {
  run([this](Communicator& comm) {
    std::deque<Messages<int64_t>> all;
    std::vector<WorkHandle> work;
    auto data = elements<float>(comm.rank(), 30011);
    for (int k = 0; k < 6; ++k) {
      work.push_back(all.emplace_back(comm, all_pairs(comm), k, 1).start());
      if (k == 2) work.push_back(comm.all_reduce_async(view(comm, data)));
    }
    while (!work.empty()) {
      work.back()->wait();
      EXPECT_TRUE(work.back()->done());
      work.pop_back();
    }
    settle(comm);
    for (const auto& messages : all) messages.expect_delivered();
    EXPECT_TRUE(same_bits(data, reduced<float>(comm.size(), 30011, ReduceOp::sum)));
  });
}

// The order is that of the pair's messages, however they are cut into calls.
TEST_P(CommunicatorTest, MessagesMeetAcrossCalls) {
  run([this](Communicator& comm) {
    if (comm.size() == 1 || !GetParam().free_messages) return;
    const auto a = elements<float>(1, 70001), b = elements<float>(2, 10);
    if (comm.rank() == 0) {
      const Send both[] = {{1, view(comm, a)}, {1, view(comm, b)}};
      comm.send_recv(both, {});
    } else if (comm.rank() == 1) {
      std::vector<float> first(a.size()), second(b.size());
      const Receive one[] = {{0, view(comm, first)}}, two[] = {{0, view(comm, second)}};
      const WorkHandle early = comm.send_recv_async({}, one);
      comm.send_recv({}, two);
      early->wait();
      EXPECT_TRUE(same_bits(first, a));
      EXPECT_TRUE(same_bits(second, b));
    }
    comm.barrier();
  });
}

TEST_P(CommunicatorTest, WhatStartedLaterMayEndEarlier) {
  run([this](Communicator& comm) {
    if (comm.size() == 1 || !GetParam().free_messages) return;
    const int last = comm.size() - 1;
    auto parcel = elements<double>(comm.rank(), 50021), sum = elements<double>(comm.rank(), 50021);
    const Send send[] = {{0, view(comm, parcel)}};
    const Receive receive[] = {{last, view(comm, parcel)}};
    WorkHandle early;
    if (comm.rank() == 0) early = comm.send_recv_async({}, receive);
    comm.all_reduce(view(comm, sum));
    const bool too_early = early && early->done();  // nothing was sent
    EXPECT_FALSE(too_early);
    comm.barrier();
    if (comm.rank() == last) comm.send_recv(send, {});
    if (early) early->wait();
    EXPECT_TRUE(same_bits(sum, reduced<double>(comm.size(), 50021, ReduceOp::sum)));
    if (comm.rank() == 0) {
      EXPECT_TRUE(same_bits(parcel, elements<double>(last, 50021)));
    }
  });
}

TEST_P(CommunicatorTest, MessagesOfDifferentSizesAreAnError) {
  // A multiple of every limit, more, less, nothing: the two sides never agree.
  constexpr int64_t kCases[][2] = {
      {1 << 20, 1 << 19}, {1 << 19, 1 << 20}, {1001, 2002}, {3003, 1001}, {0, 5}, {5, 0}, {12, 10}};
  for (const auto& [sent, expected] : kCases) {
    if (!GetParam().free_messages && (sent == 0 || expected == 0)) continue;
    run([&](Communicator& comm) {
      if (comm.size() == 1) return;
      auto& data = never_freed<uint8_t>(comm.rank() == 0 ? sent : expected);
      std::string text;
      const ErrorCode code = code_of(
          [&] {
            if (comm.rank() == 0) {
              const Send send[] = {{1, view(comm, data)}};
              comm.send_recv(send, {});
            } else if (comm.rank() == 1) {
              const Receive receive[] = {{0, view(comm, data)}};
              comm.send_recv({}, receive);
            }
            settle(comm);
            comm.barrier();
          },
          &text);
      expect_mismatch(code, text);
    });
  }
}

}  // namespace trireme::comm::conformance
