// What goes wrong, said once: libraries throw Error, only a program's main turns it into an exit
// status. Mistakes in what a user wrote are collected (Mistakes), so that all are shown at once.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

enum class ErrorCode {
  invalid_config,  // what the user wrote or asked for
  bad_shape,       // a tensor, layout or batch that does not fit
  io,              // a file or socket that cannot be read or written
  corrupt_data,    // a file that can be read but makes no sense
  cuda,
  nccl,
  mpi,
  timeout,
  peer_failed,  // another rank's error, told by the agreement at the end of a stage
  internal,     // a broken promise of our own
};

const char* to_string(ErrorCode code);
/// Throws internal if `name` is no code's name.
ErrorCode error_code_from(const std::string& name);

/// Exit statuses of both programs; the launcher returns the job's own.
/// Documented in docs/exit-codes.md.
enum class ExitStatus : int {
  ok = 0,
  failed = 1,         // an error in a rank
  bad_input = 2,      // configuration, arguments or data; nothing was started
  rank_killed = 3,    // a rank was ended by a signal (not by the launcher)
  timed_out = 4,      // a stall or a lost rank
  checkpointed = 75,  // asked to stop, wrote a checkpoint: start again to go on (EX_TEMPFAIL)
  interrupted = 130,  // Ctrl-C
};
ExitStatus exit_status_of(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message, std::string where = {});

  ErrorCode code() const { return code_; }
  /// What went wrong and what to try, without code and place.
  const std::string& message() const { return message_; }
  /// "trainer/config", "stage gen", "libmpi MPI_Allreduce", ... or empty.
  const std::string& where() const { return where_; }
  /// Rank and host are filled in by the session when the error crosses ranks; -1 and "" before.
  int rank() const { return rank_; }
  const std::string& host() const { return host_; }
  Error& on(int rank, std::string host);

 private:
  ErrorCode code_;
  std::string message_, where_;
  int rank_ = -1;
  std::string host_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// All mistakes found in something that a user wrote. One line each: where, what, what to try.
class Mistakes {
 public:
  /// `where` is "FILE:LINE", a key, or empty.
  void add(std::string where, std::string what);
  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  /// Throws invalid_config with every line, under `heading`; returns if there are none.
  void throw_if_any(const std::string& heading) const;

 private:
  std::vector<std::string> lines_;
};

/// The candidate nearest to `word` by edits, or "" if none is near enough to be meant.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace trireme

/// A contract between parts of this program: a violation is our mistake, not the user's.
#define TRIREME_CHECK(condition, ...)                                                    \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      throw ::trireme::Error(::trireme::ErrorCode::internal, ::fmt::format(__VA_ARGS__), \
                             ::fmt::format("{}:{}", __FILE__, __LINE__));                \
  } while (false)
