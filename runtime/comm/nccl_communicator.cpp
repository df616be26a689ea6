#include "runtime/comm/nccl_communicator.h"

#include <map>
#include <utility>

namespace trireme::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 50us;        // between two looks at a call in progress
constexpr auto kWatchPeriod = 5ms;  // between two looks at what is enqueued
constexpr auto kSpin = 200us;       // waiting for an operation: first at full attention

}  // namespace

class NcclCommunicator::Flight {
 public:
  Flight(GpuCalls& gpu, std::string what) : what(std::move(what)), gpu_(gpu), over_(gpu.create_event()) {}
  ~Flight() {
    try {
      gpu_.destroy_event(over_);
    } catch (const Error&) {  // an event of a failed GPU
    }
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  GpuEvent event() const { return over_; }
  bool over() const { return gpu_.is_over(over_); }

  const std::string what;
  const Clock::time_point since = Clock::now();

 private:
  GpuCalls& gpu_;
  GpuEvent over_;
};

class NcclCommunicator::FlightWork : public Work {
 public:
  FlightWork(NcclCommunicator& comm, std::shared_ptr<Flight> flight)
      : comm_(comm), flight_(std::move(flight)) {}
  ~FlightWork() override {
    if (joined_) return;
    try {
      comm_.wait(*flight_);
    } catch (const std::exception&) {  // whoever wants to know calls wait()
    }
  }
  void wait() override {
    comm_.wait(*flight_);
    join();
  }
  bool done() override { return flight_->over() || !comm_.abort_reason().empty(); }
  void join() override {
    comm_.gpu_.wait_for(comm_.options_.compute, flight_->event());
    joined_ = true;
  }

 private:
  NcclCommunicator& comm_;
  std::shared_ptr<Flight> flight_;
  bool joined_ = false;
};

struct NcclCommunicator::LaunchOrder {
  std::mutex mutex;
  std::shared_ptr<Flight> last;
};

std::shared_ptr<NcclCommunicator::LaunchOrder> NcclCommunicator::order_of(GpuCalls& gpu, int device) {
  static std::mutex mutex;
  static std::map<std::pair<GpuCalls*, int>, std::weak_ptr<LaunchOrder>> orders;
  std::lock_guard lock(mutex);
  auto& entry = orders[{&gpu, device}];
  auto order = entry.lock();
  if (!order) entry = order = std::make_shared<LaunchOrder>();
  return order;
}

NcclCommunicator::NcclCommunicator(GpuCalls& gpu, NcclCalls& nccl, Communicator& host, NcclOptions options)
    : gpu_(gpu),
      nccl_(nccl),
      host_(host),
      options_(options),
      device_(gpu.current_device()),
      order_(order_of(gpu, device_)) {
  try {
    open();
  } catch (const Error& error) {
    end(error);
    release();
    throw;
  }
  watcher_ = std::thread([this] { watch(); });
}

void NcclCommunicator::open() {
  // The first rank's id for all, or the news that it has none.
  struct {
    NcclId id{};
    NcclResult result = NcclResult::success;
  } first;
  if (rank() == 0) first.result = nccl_.get_unique_id(&first.id);
  host_.broadcast({&first, sizeof first, DType::u8}, 0);
  if (first.result != NcclResult::success)
    throw Error(ErrorCode::nccl, nccl_.text(first.result, nullptr), "ncclGetUniqueId");
  stream_ = gpu_.create_stream();
  past_ = gpu_.create_event();
  barrier_data_ = gpu_.allocate(sizeof(int32_t));
  std::unique_lock lock(mutex_);
  const NcclResult result = nccl_.init(&comm_, size(), first.id, rank());
  settle(result, "opening the communicator", lock);
}

NcclCommunicator::~NcclCommunicator() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (comm_ && !ended_by_ && !closed_) nccl_.abort(comm_);
  release();
}

void NcclCommunicator::release() noexcept {
  flights_.clear();
  try {
    if (barrier_data_) gpu_.free(barrier_data_);
    if (past_) gpu_.destroy_event(past_);
    if (stream_) gpu_.destroy_stream(stream_);
  } catch (const Error&) {  // a failed GPU has nothing left to give back
  }
}

void NcclCommunicator::close() {
  barrier();
  std::unique_lock lock(mutex_);
  settle(nccl_.finalize(comm_), "closing the communicator", lock);
  const NcclResult result = nccl_.destroy(comm_);
  closed_ = true;
  flights_.clear();
  if (result != NcclResult::success)
    throw Error(ErrorCode::nccl, nccl_.text(result, nullptr), "ncclCommDestroy");
}

// A non-blocking call's end, good or bad. The lock is open while nothing but time passes.
void NcclCommunicator::settle(NcclResult result, const std::string& what,
                              std::unique_lock<std::mutex>& lock) {
  const auto give_up = Clock::now() + options_.timeout;
  while (result == NcclResult::in_progress) {
    lock.unlock();
    std::this_thread::sleep_for(kPoll);
    const std::string peer = host_.abort_reason();
    lock.lock();
    throw_if_ended();
    if (!peer.empty()) throw Error(ErrorCode::peer_failed, peer, "NCCL, " + what);
    if (Clock::now() > give_up)
      throw Error(ErrorCode::timeout,
                  fmt::format("{}: {} has not ended within {} ms on rank {}; is a rank missing or stuck?",
                              name(), what, options_.timeout.count(), rank()),
                  "NCCL");
    const NcclResult asked = nccl_.async_error(comm_, &result);
    if (asked != NcclResult::success) result = asked;
  }
  if (result == NcclResult::success) return;
  throw Error(ErrorCode::nccl, fmt::format("{}: {}: {}", name(), what, nccl_.text(result, comm_)), "NCCL");
}

std::shared_ptr<NcclCommunicator::Flight> NcclCommunicator::enqueue(
    const std::string& what, const std::function<NcclResult()>& issue) {
  TRIREME_CHECK(!closed_, "{}: {} after close()", name(), what);
  if (const auto error = trouble()) end(*error);
  try {
    auto flight = std::make_shared<Flight>(gpu_, what);
    std::lock_guard in_order(order_->mutex);
    std::unique_lock lock(mutex_);
    throw_if_ended();
    gpu_.record(past_, options_.compute);
    gpu_.wait_for(stream_, past_);
    if (order_->last) gpu_.wait_for(stream_, order_->last->event());
    settle(issue(), what, lock);
    gpu_.record(flight->event(), stream_);
    order_->last = flight;
    flights_.push_back(flight);
    changed_.notify_all();
    return flight;
  } catch (const Error& error) {
    end(error);  // half an operation cannot be taken back
    throw;
  }
}

WorkHandle NcclCommunicator::start(const std::string& what, const std::function<NcclResult()>& issue) {
  return std::make_unique<FlightWork>(*this, enqueue(what, issue));
}

// The first error of the calls, or what the end of the group says.
NcclResult NcclCommunicator::grouped(const std::function<void(const Issue&)>& calls) {
  NcclResult result = nccl_.group_start();
  if (result != NcclResult::success) return result;
  calls([&](NcclResult next) {
    if (result == NcclResult::success && next != NcclResult::in_progress) result = next;
  });
  const NcclResult ended = nccl_.group_end();
  return result == NcclResult::success ? ended : result;
}

void NcclCommunicator::wait(Flight& flight) {
  while (true) {
    const bool over = flight.over();
    std::optional<Error> error;
    {
      std::lock_guard lock(mutex_);
      throw_if_ended();                // an abort ends the operation as well,
      if (over) error = nccl_error();  // and so does a failure
    }
    if (error) {
      end(*error);
      throw Error(*error);
    }
    if (over) return;
    if (Clock::now() - flight.since > kSpin)
      std::this_thread::sleep_for(kPoll);
    else
      std::this_thread::yield();
  }
}

// With the lock held.
std::optional<Error> NcclCommunicator::nccl_error() {
  if (closed_) return std::nullopt;
  NcclResult state = NcclResult::success;
  const NcclResult asked = nccl_.async_error(comm_, &state);
  if (asked != NcclResult::success) state = asked;
  if (state == NcclResult::remote_error)
    return Error(ErrorCode::peer_failed, fmt::format("{}: {}", name(), nccl_.text(state, comm_)), "NCCL");
  if (state != NcclResult::success && state != NcclResult::in_progress)
    return Error(ErrorCode::nccl, fmt::format("{}: {}", name(), nccl_.text(state, comm_)), "NCCL");
  return std::nullopt;
}

// What NCCL, a peer or the clock has against going on.
std::optional<Error> NcclCommunicator::trouble() {
  const std::string peer = host_.abort_reason();
  if (!peer.empty()) return Error(ErrorCode::peer_failed, peer, "NCCL");
  std::lock_guard lock(mutex_);
  if (ended_by_ || closed_) return std::nullopt;
  if (auto error = nccl_error()) return error;
  while (!flights_.empty() && flights_.front()->over()) flights_.pop_front();
  if (!flights_.empty() && Clock::now() - flights_.front()->since > options_.timeout)
    return Error(ErrorCode::timeout,
                 fmt::format("{}: {} has not ended within {} ms on rank {}", name(), flights_.front()->what,
                             options_.timeout.count(), rank()),
                 "NCCL");
  return std::nullopt;
}

// Ends what would hang: the host thread may sit in a synchronization that only an abort can end.
void NcclCommunicator::watch() {
  try {
    gpu_.use_device(device_);
    std::unique_lock lock(mutex_);
    while (!stop_ && !ended_by_) {
      if (flights_.empty())
        changed_.wait(lock);
      else
        changed_.wait_for(lock, kWatchPeriod);
      if (stop_ || ended_by_ || closed_) continue;
      lock.unlock();
      if (const auto error = trouble()) end(*error);
      lock.lock();
    }
  } catch (const Error& error) {
    end(error);
  }
}

void NcclCommunicator::throw_if_ended() {
  if (ended_by_) throw Error(*ended_by_);
}

// Peers are told over the host communicator first, then the GPU's operations are ended.
void NcclCommunicator::end(const Error& error) noexcept {
  host_.abort(error.message());
  std::lock_guard lock(mutex_);
  if (ended_by_) return;
  ended_by_ = std::make_shared<const Error>(error);
  if (comm_ && !closed_) nccl_.abort(comm_);
  changed_.notify_all();
}

void NcclCommunicator::abort(const std::string& why) noexcept {
  end(Error(ErrorCode::peer_failed, fmt::format("{} was aborted by rank {}: {}", name(), rank(), why),
            "NCCL"));
}

std::string NcclCommunicator::abort_reason() const {
  std::lock_guard lock(mutex_);
  return ended_by_ ? ended_by_->message() : "";
}

std::string nccl_version() {
  return nccl_calls() ? nccl_calls()->version() : "not built in";
}

}  // namespace trireme::comm
