#include "launcher/console/console.h"

#include <fmt/format.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace trireme::console {
namespace {

// A reader who is that far behind gets the rest from the log files.
constexpr size_t kMostBytes = 64 << 20;

int columns_of(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Style Style::of_this_process() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool plain = (no_color && *no_color) || !term || std::strcmp(term, "dumb") == 0;
  std::setlocale(LC_CTYPE, "");
  return {.progress = !plain && ::isatty(1) && ::isatty(2),
          .color = !plain && ::isatty(2),
          .unicode = std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0};
}

Console::Console(Style style, int out, int err) : style_(style), out_(out), err_(err) {
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  writer_ = std::thread([this] { write_loop(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Console::~Console() {
  finish();
}

void Console::out(std::string line) {
  add({false, std::move(line)});
}
void Console::err(std::string line) {
  add({true, std::move(line)});
}

void Console::rank_err(int rank, const std::string& line) {
  err(fmt::format(fmt::runtime(style_.color ? "\x1b[2m[rank {}]\x1b[0m {}" : "[rank {}] {}"), rank, line));
}

void Console::add(Line line) {
  const std::lock_guard lock(mutex_);
  if (bytes_ > kMostBytes) {
    ++dropped_;
    return;
  }
  bytes_ += line.text.size();
  lines_.push_back(std::move(line));
  changed_.notify_one();
}

void Console::progress(Progress progress) {
  if (!style_.progress) return;
  const std::lock_guard lock(mutex_);
  progress_ = std::move(progress);
  redraw_ = true;
  changed_.notify_one();
}

void Console::finish() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    progress_.reset();
    redraw_ = true;
    closing_ = true;
    changed_.notify_one();
  }
  writer_.join();
}

void Console::write_loop() {
  for (bool last = false; !last;) {
    std::deque<Line> lines;
    std::optional<Progress> progress;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !lines_.empty() || redraw_; });
      lines.swap(lines_);
      bytes_ = 0;
      if (const size_t missed = std::exchange(dropped_, 0))
        lines.push_back(
            {true, fmt::format("({} lines are not shown here; the log files have them)", missed)});
      progress = progress_;
      redraw_ = false;
      last = closing_;
    }
    write_batch(lines, progress);
  }
}

void Console::write_batch(const std::deque<Line>& lines, const std::optional<Progress>& progress) {
  // One write for as many lines of one stream as follow each other. The bar is on standard error.
  std::string text;
  if (bar_shown_) text += "\r\x1b[K";
  bool to_error = bar_shown_ || (!lines.empty() && lines.front().is_error);
  for (const auto& line : lines) {
    if (line.is_error != to_error) {
      write_all(to_error ? err_ : out_, std::exchange(text, {}));
      to_error = line.is_error;
    }
    text += line.text;
    text += '\n';
  }
  if (progress) {
    if (!to_error) write_all(out_, std::exchange(text, {}));
    to_error = true;
    text += "\r" + draw(*progress, columns_of(err_) - 1, style_.unicode) + "\x1b[K";
  }
  bar_shown_ = progress.has_value();
  write_all(to_error ? err_ : out_, text);
}

void Console::write_all(int& fd, const std::string& text) {
  for (size_t done = 0; fd >= 0 && done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      fd = -1;  // the reader is gone; the run goes on, its logs have everything
    }
  }
}

}  // namespace trireme::console
