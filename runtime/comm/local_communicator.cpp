#include "runtime/comm/local_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/comm/collective_call.h"
#include "runtime/comm/ordered_reduce.h"

namespace trireme::comm {
namespace {

// One rank's call with its buffers; they stay valid until the round is over.
struct Call {
  CallHeader header;
  ConstBufferView in;
  BufferView out;
  std::vector<int64_t> counts;  // all_to_all_v: what it sends
  std::vector<int64_t> recv_counts;
};

void copy(BufferView to, ConstBufferView from) {
  if (from.bytes() && to.data != from.data) std::memmove(to.data, from.data, from.bytes());
}

void reduce_part(const std::vector<Call>& calls, int64_t begin, BufferView out, ReduceOp op) {
  std::vector<const void*> parts;
  for (const Call& call : calls) parts.push_back(call.in.slice(begin, out.count).data);
  reduce_in_order(parts, out.data, out.count, out.dtype, op);
}

void all_reduce(const std::vector<Call>& calls) {
  const int64_t count = calls[0].in.count;
  const int64_t block = std::min<int64_t>(count, 1 << 16);
  std::vector<std::byte> sums(block * size_of(calls[0].in.dtype));
  for (int64_t begin = 0; begin < count; begin += block) {
    const BufferView sum{sums.data(), std::min(block, count - begin), calls[0].in.dtype};
    reduce_part(calls, begin, sum, calls[0].header.op);
    for (const Call& call : calls) copy(call.out.slice(begin, sum.count), sum);
  }
}

void reduce_scatter(const std::vector<Call>& calls) {
  int64_t begin = 0;
  for (const Call& call : calls) {
    reduce_part(calls, begin, call.out, calls[0].header.op);
    begin += call.out.count;
  }
}

void all_gather(const std::vector<Call>& calls) {
  for (const Call& to : calls) {
    int64_t begin = 0;
    for (const Call& from : calls) {
      copy(to.out.slice(begin, from.in.count), from.in);
      begin += from.in.count;
    }
  }
}

void all_to_all(const std::string& name, const std::vector<Call>& calls) {
  for (size_t d = 0; d < calls.size(); ++d) {
    int64_t to = 0;
    for (size_t s = 0; s < calls.size(); ++s) {
      const int64_t n = calls[s].counts[d];
      TRIREME_CHECK(n == calls[d].recv_counts[s],
                    "{}: all_to_all_v: rank {} sends {} elements to rank {}, which expects {}", name, s, n, d,
                    calls[d].recv_counts[s]);
      int64_t from = 0;
      for (size_t k = 0; k < d; ++k) from += calls[s].counts[k];
      copy(calls[d].out.slice(to, n), calls[s].in.slice(from, n));
      to += n;
    }
  }
}

// Moves everybody's data. All ranks have arrived and none leaves before this ends.
void execute(const std::string& name, const std::vector<Call>& calls) {
  std::vector<CallHeader> headers;
  for (const Call& call : calls) headers.push_back(call.header);
  check_same_call(name, headers);
  switch (calls[0].header.kind) {
    case Collective::barrier:
      return;
    case Collective::broadcast:
      for (const Call& call : calls) copy(call.out, calls[calls[0].header.root].in);
      return;
    case Collective::all_reduce:
      return all_reduce(calls);
    case Collective::all_gather:
    case Collective::all_gather_v:
      return all_gather(calls);
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v:
      return reduce_scatter(calls);
    case Collective::all_to_all_v:
      return all_to_all(name, calls);
    case Collective::send_recv:
      return;  // has no round
  }
}

// What a rank waits for.
struct Outcome {
  bool over = false;
  std::shared_ptr<const Error> error;  // each rank throws its own copy
};

struct Round : Outcome {
  explicit Round(int num_ranks) : calls(num_ranks) {}
  std::vector<Call> calls;
  int arrived = 0;
};

// One rank's send_recv: over when all its messages have met theirs.
struct Messages : Outcome {
  size_t pending = 0;
};

// A message that waits for its other side.
struct Posted {
  std::shared_ptr<Messages> owner;
  ConstBufferView from;
  BufferView to;
};
using Box = std::map<std::pair<int, int>, std::deque<Posted>>;  // by (from, to)

}  // namespace

// Where the ranks meet. Each rank's k-th collective belongs to round k, and the last one to arrive does the
// work; a message is copied by the side that comes second.
struct LocalWorld::Meeting {
  Meeting(int num_ranks, std::string the_name)
      : size(num_ranks), name(std::move(the_name)), next(num_ranks) {}

  const int size;
  const std::string name;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> next;                  // each rank's next round
  std::deque<std::shared_ptr<Round>> rounds;  // not yet entered by all; the first one is number `first`
  int64_t first = 0;
  Box sent, awaited;                   // for each pair one of the two is empty
  std::shared_ptr<const Error> error;  // what ended the world

  std::shared_ptr<Outcome> enter(int rank, Call call) {
    std::lock_guard lock(mutex);
    if (error) throw Error(*error);
    const int64_t number = next[rank]++;
    while (first + static_cast<int64_t>(rounds.size()) <= number)
      rounds.push_back(std::make_shared<Round>(size));
    std::shared_ptr<Round> round = rounds[number - first];
    round->calls[rank] = std::move(call);
    if (++round->arrived == size) finish(*round);
    while (!rounds.empty() && rounds.front()->over) {
      rounds.pop_front();
      ++first;
    }
    return round;
  }

  void finish(Round& round) {
    try {
      execute(name, round.calls);
    } catch (const Error& e) {
      round.error = std::make_shared<const Error>(e);
      end(round.error);
    }
    round.over = true;
    changed.notify_all();
  }

  std::shared_ptr<Outcome> exchange(int rank, std::span<const Send> sends,
                                    std::span<const Receive> receives) {
    std::lock_guard lock(mutex);
    if (error) throw Error(*error);
    auto messages = std::make_shared<Messages>();
    messages->pending = 1;  // until all are posted
    for (const Send& send : sends)
      if (send.to != rank) post({messages, send.data, {}}, rank, send.to, sent, awaited);
    for (const Receive& receive : receives)
      if (receive.from != rank) post({messages, {}, receive.data}, receive.from, rank, awaited, sent);
    arrive(*messages);
    return messages;
  }

  void post(Posted message, int from, int to, Box& own, Box& others) {
    ++message.owner->pending;
    std::deque<Posted>& waiting = others[{from, to}];
    if (error || waiting.empty()) {
      own[{from, to}].push_back(std::move(message));
      return;
    }
    const Posted other = std::move(waiting.front());
    waiting.pop_front();
    const bool sends = &own == &sent;
    const ConstBufferView source = sends ? message.from : other.from;
    const BufferView target = sends ? other.to : message.to;
    if (source.bytes() != target.bytes()) {
      end(std::make_shared<const Error>(
          ErrorCode::internal,
          fmt::format("rank {} sends {} x {} to rank {}, which expects {} x {}", from, source.count,
                      to_string(source.dtype), to, target.count, to_string(target.dtype)),
          "communicator " + name));
      for (Messages* side : {message.owner.get(), other.owner.get()}) conclude(*side, error);
      return;
    }
    copy(target, source);
    arrive(*message.owner);
    arrive(*other.owner);
  }

  void arrive(Messages& messages) {
    if (--messages.pending == 0) conclude(messages, nullptr);
  }

  void conclude(Outcome& outcome, std::shared_ptr<const Error> why) {
    if (outcome.over) return;
    outcome.error = std::move(why);
    outcome.over = true;
    changed.notify_all();
  }

  // With the lock held.
  void end(std::shared_ptr<const Error> why) {
    if (error) return;
    error = std::move(why);
    for (const auto& round : rounds) conclude(*round, error);
    for (const auto* box : {&sent, &awaited})
      for (const auto& [pair, waiting] : *box)
        for (const Posted& message : waiting) conclude(*message.owner, error);
    changed.notify_all();
  }

  void wait(const Outcome& outcome) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return outcome.over; });
    if (outcome.error) throw Error(*outcome.error);
  }
};

class LocalWorld::Member : public Communicator {
 public:
  Member(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  const std::string& name() const override { return meeting_->name; }
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size; }
  Device device() const override { return Device::cpu; }

  void barrier() override { start({.header = {.kind = Collective::barrier}})->wait(); }
  WorkHandle broadcast_async(BufferView data, int root) override {
    return start({.header = check_broadcast(*this, data, root), .in = data, .out = data});
  }
  WorkHandle all_reduce_async(BufferView data, ReduceOp op) override {
    return start({.header = check_all_reduce(*this, data, op), .in = data, .out = data});
  }
  WorkHandle all_gather_async(ConstBufferView in, BufferView out) override {
    return start({.header = check_all_gather(*this, in, out), .in = in, .out = out});
  }
  WorkHandle all_gather_v_async(ConstBufferView in, BufferView out,
                                std::span<const int64_t> counts) override {
    return start({.header = check_all_gather_v(*this, in, out, counts), .in = in, .out = out});
  }
  WorkHandle reduce_scatter_async(ConstBufferView in, BufferView out, ReduceOp op) override {
    return start({.header = check_reduce_scatter(*this, in, out, op), .in = in, .out = out});
  }
  WorkHandle reduce_scatter_v_async(ConstBufferView in, BufferView out, std::span<const int64_t> counts,
                                    ReduceOp op) override {
    return start({.header = check_reduce_scatter_v(*this, in, out, counts, op), .in = in, .out = out});
  }
  WorkHandle all_to_all_v_async(ConstBufferView in, std::span<const int64_t> send_counts, BufferView out,
                                std::span<const int64_t> recv_counts) override {
    return start({.header = check_all_to_all_v(*this, in, send_counts, out, recv_counts),
                  .in = in,
                  .out = out,
                  .counts{send_counts.begin(), send_counts.end()},
                  .recv_counts{recv_counts.begin(), recv_counts.end()}});
  }
  WorkHandle send_recv_async(std::span<const Send> sends, std::span<const Receive> receives) override {
    for (const OwnMessage& own : check_send_recv(*this, sends, receives).own) copy(own.to, own.from);
    return std::make_unique<MeetingWork>(meeting_, meeting_->exchange(rank_, sends, receives));
  }

  void abort(const std::string& why) noexcept override {
    std::lock_guard lock(meeting_->mutex);
    const std::string text = fmt::format("communicator {} was aborted by rank {}: {}", name(), rank_, why);
    meeting_->end(std::make_shared<const Error>(ErrorCode::peer_failed, text));
  }
  std::string abort_reason() const override {
    std::lock_guard lock(meeting_->mutex);
    return meeting_->error ? meeting_->error->message() : "";
  }

 private:
  class MeetingWork : public Work {
   public:
    MeetingWork(std::shared_ptr<Meeting> meeting, std::shared_ptr<Outcome> outcome)
        : meeting_(std::move(meeting)), outcome_(std::move(outcome)) {}
    ~MeetingWork() override {
      std::unique_lock lock(meeting_->mutex);
      meeting_->changed.wait(lock, [&] { return outcome_->over; });
    }
    void wait() override { meeting_->wait(*outcome_); }
    bool done() override {
      std::lock_guard lock(meeting_->mutex);
      return outcome_->over;
    }

   private:
    std::shared_ptr<Meeting> meeting_;
    std::shared_ptr<Outcome> outcome_;
  };

  WorkHandle start(Call call) {
    return std::make_unique<MeetingWork>(meeting_, meeting_->enter(rank_, std::move(call)));
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

LocalWorld::LocalWorld(int num_ranks, const std::string& name)
    : meeting_(std::make_shared<Meeting>(num_ranks, name)) {
  TRIREME_CHECK(num_ranks > 0, "a world of {} ranks", num_ranks);
  for (int r = 0; r < num_ranks; ++r) members_.push_back(std::make_unique<Member>(meeting_, r));
}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const {
  return meeting_->size;
}

Communicator& LocalWorld::communicator(int rank) {
  TRIREME_CHECK(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  return *members_[rank];
}

void LocalWorld::run(int num_ranks, const std::function<void(Communicator&)>& body) {
  LocalWorld world(num_ranks);
  std::mutex mutex;
  std::exception_ptr cause, consequence;
  std::vector<std::thread> threads;
  for (int r = 0; r < num_ranks; ++r)
    threads.emplace_back([&, r] {
      const auto note = [&](std::exception_ptr& slot, const char* what) {
        std::lock_guard lock(mutex);
        if (!slot) slot = std::current_exception();
        world.communicator(r).abort(what);
      };
      try {
        body(world.communicator(r));
      } catch (const Error& e) {
        note(e.code() == ErrorCode::peer_failed ? consequence : cause, e.what());
      } catch (const std::exception& e) {
        note(cause, e.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
  if (consequence) std::rethrow_exception(consequence);
}

}  // namespace trireme::comm
