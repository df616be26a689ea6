#include "runtime/comm/mpi_thread.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

namespace trireme::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpin = 50us;  // an answer that comes at once is worth a core
constexpr auto kYield = 2ms;  // chunks of a large transfer come within this
constexpr auto kShortNap = 20us, kLongNap = 500us;
constexpr auto kIdle = 50ms;  // between two looks for a peer's last words while nothing is under way
constexpr int kNoteBytes = 1024;

// Signals are for the main thread, whose system calls they must interrupt.
void block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Error to_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, error.what(), "communication thread");
  }
}

}  // namespace

// Shared by the caller who waits and the thread that finishes.
class MpiThread::Pending {
 public:
  void finish(std::shared_ptr<const Error> error = nullptr) {
    error_ = std::move(error);
    finished_.store(true, std::memory_order_release);
    finished_.notify_all();
  }
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  void wait_quietly() const { finished_.wait(false, std::memory_order_acquire); }
  void wait() const {
    wait_quietly();
    if (error_) throw Error(*error_);
  }

 private:
  std::shared_ptr<const Error> error_;
  std::atomic<bool> finished_{false};
};

class MpiThread::PendingWork : public Work {
 public:
  explicit PendingWork(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  ~PendingWork() override { pending_->wait_quietly(); }
  void wait() override { pending_->wait(); }
  bool done() override { return pending_->finished(); }

 private:
  std::shared_ptr<Pending> pending_;
};

MpiThread::MpiThread() : note_(std::make_unique<char[]>(kNoteBytes)) {
  thread_ = std::thread([this] { loop(); });
  try {
    call([this] { open(); });
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    throw;
  }
}

MpiThread::~MpiThread() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void MpiThread::open() {
  int initialized = 0, level = 0;
  TRIREME_MPI(MPI_Initialized, &initialized);
  if (initialized) {
    TRIREME_MPI(MPI_Query_thread, &level);
    if (level != MPI_THREAD_MULTIPLE)
      fail(ErrorCode::mpi, "MPI was initialized by the program without MPI_THREAD_MULTIPLE");
  } else {
    TRIREME_MPI(MPI_Init_thread, nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
    initialized_here_ = true;
    if (level < MPI_THREAD_FUNNELED)
      fail(ErrorCode::mpi, "this MPI library was built without support for threads");
  }
  TRIREME_MPI(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  TRIREME_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &world_rank_);
  TRIREME_MPI(MPI_Comm_size, MPI_COMM_WORLD, &world_size_);
  TRIREME_MPI(MPI_Comm_dup, MPI_COMM_WORLD, &notes_);
  listen();
}

void MpiThread::finalize() {
  call([this] {
    TRIREME_CHECK(operations_.empty(), "MPI is to be finalized while {} operations are under way",
                  operations_.size());
    stop_listening();
    finalized_ = true;
    if (initialized_here_) TRIREME_MPI(MPI_Finalize);
  });
}

void MpiThread::call(const std::function<void()>& function) {
  const auto pending = std::make_shared<Pending>();
  {
    std::lock_guard lock(mutex_);
    if (ended_by_) throw Error(*ended_by_);
    jobs_.push_back([this, pending, &function] {
      std::shared_ptr<const Error> error = ended_by_;
      try {
        if (!error) function();
      } catch (...) {
        error = std::make_shared<const Error>(to_error(std::current_exception()));
      }
      pending->finish(error);
    });
    has_jobs_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
  pending->wait();
}

WorkHandle MpiThread::start(std::function<Task()> make) {
  auto pending = std::make_shared<Pending>();
  auto work = std::make_unique<PendingWork>(pending);
  {
    std::lock_guard lock(mutex_);
    if (ended_by_) {
      pending->finish(ended_by_);
      return work;
    }
    jobs_.push_back([this, pending, make = std::move(make)] {
      if (ended_by_) return pending->finish(ended_by_);
      operations_.push_back(std::make_unique<Operation>(Operation{make(), pending}));
      operations_.back()->task.start();
    });
    has_jobs_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
  return work;
}

void MpiThread::abort(const std::string& why) noexcept {
  const auto error = std::make_shared<const Error>(
      ErrorCode::peer_failed, fmt::format("rank {} aborted: {}", world_rank_, why), "communication thread");
  {
    std::lock_guard lock(mutex_);
    if (ended_by_) return;
    jobs_.push_back([this, error] { end(*error, true); });
    has_jobs_.store(true, std::memory_order_release);
  }
  wake_.notify_one();
  // The caller may leave by _exit() at once: the note should be out by then, if the thread is free to send
  // it.
  for (const auto give_up = Clock::now() + 100ms; !told_.load() && Clock::now() < give_up;)
    std::this_thread::sleep_for(100us);
}

std::string MpiThread::abort_reason() const {
  std::lock_guard lock(mutex_);
  return ended_by_ ? ended_by_->message() : "";
}

void MpiThread::loop() {
  block_signals();
  auto last_event = Clock::now();
  while (true) {
    bool event = run_jobs();
    event |= progress();
    event |= collect();
    if (event) {
      last_event = Clock::now();
      continue;
    }
    {
      std::unique_lock lock(mutex_);
      if (stop_) break;
      if (operations_.empty()) wake_.wait_for(lock, kIdle, [this] { return stop_ || has_jobs_; });
    }
    if (operations_.empty()) {
      check_note();
      last_event = Clock::now();
    } else {
      rest(Clock::now() - last_event);
    }
  }
  if (!operations_.empty())
    end(Error(ErrorCode::peer_failed, "the session was closed", "communication thread"), false);
  if (!finalized_) stop_listening();
}

bool MpiThread::run_jobs() {
  if (!has_jobs_.load(std::memory_order_acquire)) return false;
  std::vector<std::function<void()>> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
    has_jobs_.store(false, std::memory_order_release);
  }
  for (const auto& job : jobs) job();
  return true;
}

bool MpiThread::progress() {
  bool moved = false;
  for (size_t i = 0; i < waiting_.size();) {
    if (!waiting_[i].requests->test()) {
      ++i;
      continue;
    }
    const std::coroutine_handle<> handle = waiting_[i].handle;
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    handle.resume();  // may wait again
    moved = true;
  }
  return moved;
}

// Finished operations: tells their callers; an error of one is the end of all.
bool MpiThread::collect() {
  bool any = false;
  for (size_t i = 0; i < operations_.size();) {
    Operation& operation = *operations_[i];
    if (!operation.task.done()) {
      ++i;
      continue;
    }
    any = true;
    if (const std::exception_ptr exception = operation.task.error()) {
      const Error error = to_error(exception);
      end(error, true);
      return true;
    }
    operation.pending->finish();
    operations_.erase(operations_.begin() + static_cast<ptrdiff_t>(i));
  }
  return any;
}

void MpiThread::rest(Clock::duration since_last_event) {
  if (++polls_ % 64 == 0 || since_last_event > kYield) check_note();
  if (since_last_event < kSpin) return;
  if (since_last_event < kYield) {
    std::this_thread::yield();
    return;
  }
  const auto nap = std::clamp<Clock::duration>(since_last_event / 64, kShortNap, kLongNap);
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, nap, [this] { return stop_ || has_jobs_; });
}

void MpiThread::listen() {
  TRIREME_MPI(MPI_Irecv, note_.get(), kNoteBytes, MPI_BYTE, MPI_ANY_SOURCE, 0, notes_, &note_request_);
}

// Local. A message that came nevertheless must find its buffer, for as long as MPI lives.
void MpiThread::stop_listening() {
  if (note_request_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&note_request_);
  int over = 0;
  for (int attempt = 0; attempt < 1000 && !over; ++attempt)
    MPI_Test(&note_request_, &over, MPI_STATUS_IGNORE);
  if (!over) static_cast<void>(note_.release());
  note_request_ = MPI_REQUEST_NULL;
}

void MpiThread::check_note() {
  if (note_request_ == MPI_REQUEST_NULL || ended_by_) return;
  int arrived = 0;
  MPI_Status status;
  if (MPI_Test(&note_request_, &arrived, &status) != MPI_SUCCESS || !arrived) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  const auto code = static_cast<ErrorCode>(note_[0]);
  end(Error(code, std::string(note_.get() + 1, static_cast<size_t>(std::max(bytes - 1, 0)))), false);
}

// A peer's broken promise (internal) is everybody's: both sides of a mismatch must see it. Everything else
// is news about a peer.
void MpiThread::end(const Error& error, bool tell_others) {
  if (ended_by_) return;
  const ErrorCode code = error.code() == ErrorCode::internal ? error.code() : ErrorCode::peer_failed;
  const auto shared = std::make_shared<const Error>(code, error.message(), error.where());
  {
    std::lock_guard lock(mutex_);
    ended_by_ = shared;
  }
  if (tell_others && !finalized_) tell_all(*shared);
  told_ = true;
  for (const Waiting& waiting : waiting_) waiting.requests->cancel();
  waiting_.clear();
  for (const auto& operation : operations_) {
    const bool own = operation->task.done() && operation->task.error();
    operation->pending->finish(own ? std::make_shared<const Error>(to_error(operation->task.error()))
                                   : shared);
  }
  // Messages that could not be taken back may still use the operations' buffers: they are never freed.
  static std::mutex abandoned_mutex;
  static auto* abandoned = new std::vector<std::unique_ptr<Operation>>;
  std::lock_guard lock(abandoned_mutex);
  for (auto& operation : operations_) abandoned->push_back(std::move(operation));
  operations_.clear();
}

// As far as it goes in a few milliseconds: no answer is waited for.
void MpiThread::tell_all(const Error& error) {
  // Never freed: it must outlive the messages, and there is at most one a process.
  const auto* note =
      new std::string(static_cast<char>(error.code()) + error.message().substr(0, kNoteBytes - 1));
  std::vector<MPI_Request> requests;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank == world_rank_) continue;
    MPI_Request request;
    if (MPI_Isend(note->data(), static_cast<int>(note->size()), MPI_BYTE, rank, 0, notes_, &request) ==
        MPI_SUCCESS)
      requests.push_back(request);
  }
  const auto give_up = Clock::now() + 20ms;
  int all = 0;
  while (!all && Clock::now() < give_up)
    if (MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE) !=
        MPI_SUCCESS)
      return;
}

}  // namespace trireme::comm
