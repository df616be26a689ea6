#include "launcher/console/console.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <utility>

namespace trireme::console {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    for (const int fd : ends_)
      if (fd >= 0) ::close(fd);
  }
  int in() const { return ends_[1]; }
  int reader() const { return ends_[0]; }
  void close_reader() { ::close(std::exchange(ends_[0], -1)); }
  std::string all() {
    ::close(std::exchange(ends_[1], -1));
    std::string text(1 << 16, '\0'), whole;
    for (ssize_t n; (n = ::read(ends_[0], text.data(), text.size())) > 0;) whole.append(text, 0, n);
    return whole;
  }

 private:
  std::array<int, 2> ends_{};
};

TEST(Console, WritesPlainLinesToTheirStreams) {
  Pipe out, err;
  Console console({}, out.in(), err.in());
  console.out("one");
  console.rank_err(3, "warning");
  console.progress({.phase = "grpo"});
  console.out("two");
  console.finish();
  EXPECT_EQ(out.all(), "one\ntwo\n");
  EXPECT_EQ(err.all(), "[rank 3] warning\n");
}

TEST(Console, DimsThePrefixWhereColoursAreWanted) {
  Pipe out, err;
  Console console({.color = true}, out.in(), err.in());
  console.rank_err(0, "x");
  console.finish();
  EXPECT_EQ(err.all(), "\x1b[2m[rank 0]\x1b[0m x\n");
}

TEST(Console, KeepsTheProgressLineBelowTheOthersAndTakesItAwayAtTheEnd) {
  Pipe both;
  Console console({.progress = true}, both.in(), both.in());
  console.progress({.phase = "grpo", .step = 1, .total_steps = 4});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  console.out("a line");
  console.finish();
  const auto text = both.all();
  EXPECT_NE(text.find("grpo 1/4"), std::string::npos);
  EXPECT_NE(text.find("\r\x1b[K"), std::string::npos);
  EXPECT_NE(text.find("a line\n"), std::string::npos);
  const auto last_clear = text.rfind("\r\x1b[K"), last_bar = text.rfind("grpo");
  EXPECT_GT(last_clear, last_bar);
}

TEST(Console, DoesNotHoldItsUserWhenNobodyReads) {
  Pipe out, err;
  std::string everything;
  {
    Console console({}, out.in(), err.in());
    for (int i = 0; i < 100'000; ++i) console.out("a line that is longer than the pipe can take in all");
    std::thread reader([&] {
      std::string text(1 << 16, '\0');
      while (everything.size() < 52u * 100'000) {
        const ssize_t n = ::read(out.reader(), text.data(), text.size());
        if (n <= 0) break;
        everything.append(text, 0, static_cast<size_t>(n));
      }
    });
    console.finish();
    reader.join();
  }
  EXPECT_EQ(everything.size(), 52u * 100'000);
}

TEST(Console, GoesOnWhenTheReaderIsGone) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe out, err;
  out.close_reader();
  Console console({}, out.in(), err.in());
  console.out("nobody hears this");
  console.err("but this");
  console.finish();
  EXPECT_EQ(err.all(), "but this\n");
}

}  // namespace
}  // namespace trireme::console
