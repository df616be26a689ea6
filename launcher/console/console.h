// What the user sees: lines on standard output and error, and on a terminal a progress line that stays
// below them. A thread of its own writes, so that a terminal that is held (Ctrl-S, a pager) holds nobody
// else.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "launcher/console/progress.h"

namespace trireme::console {

struct Style {
  bool progress = false;  // a progress line: both streams are terminals
  bool color = false;     // dim prefixes on standard error
  bool unicode = false;

  /// NO_COLOR and TERM=dumb turn off whatever is not a plain line.
  static Style of_this_process();
};

class Console {
 public:
  explicit Console(Style style, int out = 1, int err = 2);
  ~Console();  // as finish()
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void out(std::string line);
  void err(std::string line);
  /// With "[rank N] " before the line, dim where colours are wanted.
  void rank_err(int rank, const std::string& line);
  void progress(Progress progress);
  /// Takes the progress line away and waits until everything is written.
  void finish();

 private:
  struct Line {
    bool is_error;
    std::string text;
  };
  void add(Line line);
  void write_loop();
  void write_batch(const std::deque<Line>& lines, const std::optional<Progress>& progress);
  void write_all(int& fd, const std::string& text);

  const Style style_;
  int out_, err_;           // -1: the reader is gone
  bool bar_shown_ = false;  // the writing thread's own

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Line> lines_;
  size_t bytes_ = 0, dropped_ = 0;
  std::optional<Progress> progress_;
  bool redraw_ = false, closing_ = false;
  std::thread writer_;
};

}  // namespace trireme::console
