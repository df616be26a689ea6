// A batch dealt out from one rank and gathered again, and ragged sequences that change ranks;
// exchange_peers.py runs it beside Ray:
//   mpirun -np 4 --oversubscribe --bind-to none build/cpu/bin/exchange_bench [ROUNDS [MIB [SEQUENCES]]]
// One JSON object: seconds of each round, the slowest rank's.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/tensors/sequence_exchange.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kColumns = 8;  // of 4-byte elements: ids, masks, positions, log-probabilities, ...

double slowest(comm::Communicator& world, const std::function<void()>& work) {
  world.barrier();
  const auto begin = Clock::now();
  work();
  return world.all_reduce_scalar(std::chrono::duration<double>(Clock::now() - begin).count(),
                                 comm::ReduceOp::max);
}

// Rank 0's columns go out in equal parts and come back, each straight from and into its place; its own part
// stays.
class Batch {
 public:
  Batch(comm::Communicator& world, int64_t bytes)
      : world_(world), part_(bytes / 4 / kColumns / world.size()) {
    for (int c = 0; c < kColumns; ++c) {
      columns_.emplace_back(world.rank() == 0 ? part_ * world.size() : part_, static_cast<float>(c + 1));
    }
  }
  void scatter_and_gather() {
    move(true);
    for (auto& column : columns_) column[0] += 1;  // the ranks' work
    move(false);
  }
  void check(int rounds) const {
    for (size_t c = 0; world_.rank() == 0 && c < columns_.size(); ++c)
      for (int r = 0; r < world_.size(); ++r)
        TRIREME_CHECK(columns_[c][r * part_] == static_cast<float>(c + 1) + static_cast<float>(rounds),
                      "column {} of rank {}", c, r);
  }

 private:
  void move(bool scatter) {
    std::vector<comm::Send> sends;
    std::vector<comm::Receive> receives;
    for (std::vector<float>& column : columns_) {
      const auto move_part = [&](int peer, int64_t begin, bool leaves) {
        const comm::BufferView part{column.data() + begin, part_, comm::DType::f32};
        if (leaves)
          sends.push_back({peer, part});
        else
          receives.push_back({peer, part});
      };
      if (world_.rank() != 0) move_part(0, 0, !scatter);
      for (int r = 1; world_.rank() == 0 && r < world_.size(); ++r) move_part(r, r * part_, scatter);
    }
    world_.send_recv(sends, receives);
  }

  comm::Communicator& world_;
  int64_t part_;
  std::vector<std::vector<float>> columns_;
};

// A sequence of 64 to 2,047 tokens with its columns: tokens, log-probabilities, advantages.
struct Sequence {
  int64_t id = 0;
  std::vector<int32_t> tokens;
  std::vector<float> log_probs, advantages;
};

std::vector<Sequence> make_sequences(const comm::Communicator& world, int64_t count) {
  std::vector<Sequence> sequences;
  for (int64_t i = world.rank(); i < count; i += world.size()) {
    const auto n = static_cast<size_t>(64 + below(random_bits(1, 0, static_cast<uint64_t>(i)), 1984));
    sequences.push_back({i, std::vector<int32_t>(n, static_cast<int32_t>(i)), std::vector<float>(n, 0.5f),
                         std::vector<float>(n, 1.5f)});
  }
  return sequences;
}

template <typename T>
char* put(char* to, const std::vector<T>& column) {
  std::memcpy(to, column.data(), column.size() * sizeof(T));
  return to + column.size() * sizeof(T);
}

template <typename T>
std::vector<T> take(const char*& from, size_t count) {
  const auto* first = reinterpret_cast<const T*>(from);  // all columns are of 4 bytes
  from += count * sizeof(T);
  return {first, first + count};
}

std::vector<Sequence> change_ranks(comm::Communicator& world, const std::vector<Sequence>& sequences) {
  std::vector<tensors::Outgoing> records;
  for (const Sequence& s : sequences)
    records.push_back({s.id, static_cast<int64_t>(s.tokens.size()),
                       static_cast<int64_t>(s.tokens.size() * 12),
                       [&s](char* to) { put(put(put(to, s.tokens), s.log_probs), s.advantages); }});
  std::vector<std::vector<int>> replicas;
  for (int r = 0; r < world.size(); ++r) replicas.push_back({r});
  std::vector<Sequence> arrived;
  const tensors::Arrivals arrivals = tensors::exchange_in_place(world, std::move(records), replicas);
  for (const auto& record : arrivals.records) {
    const char* from = record.bytes.data();
    const size_t n = record.bytes.size() / 12;
    Sequence& s = arrived.emplace_back();
    s.id = record.id;
    s.tokens = take<int32_t>(from, n);
    s.log_probs = take<float>(from, n);
    s.advantages = take<float>(from, n);
  }
  return arrived;
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.6f}", text.empty() ? "" : ", ", value);
  return "[" + text + "]";
}

void run(comm::Communicator& world, int rounds, int64_t bytes, int64_t count) {
  std::vector<double> batch_s, exchange_s;
  Batch batch(world, bytes);
  batch.scatter_and_gather();
  for (int i = 0; i < rounds; ++i) batch_s.push_back(slowest(world, [&] { batch.scatter_and_gather(); }));
  batch.check(rounds + 1);
  const auto sequences = make_sequences(world, count);
  for (int i = -1; i < rounds; ++i) {
    std::vector<Sequence> arrived;
    const double seconds = slowest(world, [&] { arrived = change_ranks(world, sequences); });
    const auto all = world.all_reduce_scalar(static_cast<double>(arrived.size()));
    TRIREME_CHECK(static_cast<int64_t>(all) == count, "{} of {} sequences arrived", all, count);
    for (const Sequence& s : arrived)
      TRIREME_CHECK(s.tokens.back() == s.id && s.advantages.back() == 1.5f, "sequence {}", s.id);
    if (i >= 0) exchange_s.push_back(seconds);
  }
  if (world.rank() == 0)
    fmt::print("{{\"scatter_gather\": {}, \"exchange\": {}}}\n", list(batch_s), list(exchange_s));
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const auto number = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  trireme::comm::MpiThread thread;
  {
    trireme::comm::MpiCommunicator world(thread, "world", trireme::comm::all_ranks(thread));
    trireme::run(world, static_cast<int>(number(1, 5)), number(2, 64) << 20, number(3, 4096));
  }
  thread.finalize();
}
