// The one thread of a process that calls MPI, from MPI_Init to MPI_Finalize. Open MPI progresses messages
// only inside its calls: this thread makes them while anything is under way, politely (it spins for a
// moment, then yields, then sleeps in short naps), and sleeps when nothing is.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi_requests.h"
#include "runtime/comm/mpi_task.h"

namespace trireme::comm {

class MpiThread {
 public:
  /// Initializes MPI, unless the program has (then with MPI_THREAD_MULTIPLE, and the program finalizes).
  /// Collective over: all ranks of the job. Throws: mpi.
  MpiThread();
  /// Ends the thread without a word to other ranks, MPI unfinalized unless finalize() was called.
  ~MpiThread();
  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;

  int world_rank() const { return world_rank_; }
  int world_size() const { return world_size_; }

  /// Finalizes MPI if this object initialized it. No operation may be under way.
  /// Collective over: all ranks of the job. Throws: mpi.
  void finalize();

  /// Runs `function` on the thread and waits for it; throws what it throws. It may block in MPI only when
  /// no operation is under way on this rank.
  void call(const std::function<void()>& function);

  /// Starts an operation; `make` is called on the thread. Operations start in the order of these calls. An
  /// operation that fails ends all others, here and on all ranks: MPI's state is unknown after it.
  WorkHandle start(std::function<Task()> make);

  /// In a Task: waits until all of `requests` are complete; throws their error.
  auto finished(MpiRequests& requests) {
    struct Awaiter {
      MpiThread& thread;
      MpiRequests& requests;
      bool await_ready() { return requests.test(); }
      void await_suspend(std::coroutine_handle<> handle) { thread.waiting_.push_back({handle, &requests}); }
      void await_resume() { requests.finish(); }
    };
    return Awaiter{*this, requests};
  }

  /// Any thread. Every operation under way and to come ends in peer_failed; the other ranks' likewise, if
  /// they can be reached. MPI is not called any more.
  void abort(const std::string& why) noexcept;
  std::string abort_reason() const;

 private:
  class Pending;
  class PendingWork;
  struct Operation {
    Task task;
    std::shared_ptr<Pending> pending;
  };
  struct Waiting {
    std::coroutine_handle<> handle;
    MpiRequests* requests;
  };
  using Clock = std::chrono::steady_clock;

  void loop();
  void open();
  bool run_jobs();
  bool progress();
  bool collect();
  void rest(Clock::duration since_last_event);
  void listen();
  void stop_listening();
  void check_note();
  void end(const Error& error, bool tell_others);
  void tell_all(const Error& error);

  std::thread thread_;

  // Shared with callers, under mutex_.
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> jobs_;
  std::shared_ptr<const Error> ended_by_;  // set once
  std::atomic<bool> has_jobs_{false}, told_{false};
  bool stop_ = false;

  // The thread's own.
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Waiting> waiting_;
  bool initialized_here_ = false, finalized_ = false;
  int world_rank_ = 0, world_size_ = 1;
  MPI_Comm notes_ = MPI_COMM_NULL;  // carries a failing rank's last words
  MPI_Request note_request_ = MPI_REQUEST_NULL;
  std::unique_ptr<char[]> note_;
  int polls_ = 0;
};

}  // namespace trireme::comm
