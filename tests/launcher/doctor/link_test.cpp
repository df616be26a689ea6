#include "launcher/doctor/link.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

using namespace std::chrono_literals;

TEST(Link, MeasuresBothDirections) {
  const LinkEnd a, b;
  std::thread other([&] { b.accept("secret", 20s); });
  const auto link = a.connect(fmt::format("127.0.0.1:{}", b.port()), "secret", 20s);
  other.join();
  EXPECT_EQ(link.error, "");
  EXPECT_GT(link.there, 0.0);
  EXPECT_GT(link.back, 0.0);
  EXPECT_GT(link.round_trip, 0.0);
  EXPECT_LE(link.slower(), link.there);
}

TEST(Link, SaysWhyThereIsNone) {
  const LinkEnd a;
  EXPECT_EQ(a.connect("127.0.0.1:1", "secret", 5s).error, "Connection refused");
  EXPECT_NE(a.connect("nonsense", "secret", 5s).error, "");
}

TEST(Link, EndsInTimeWhereNobodyAnswersAndLeavesStrangersOut) {
  const LinkEnd a, b;
  // Connected by the kernel, answered by nobody.
  EXPECT_EQ(a.connect(fmt::format("127.0.0.1:{}", b.port()), "secret", 200ms).error, "no answer in time");
  const LinkEnd c;
  std::thread other([&] { c.accept("secret", 20s); });
  EXPECT_NE(a.connect(fmt::format("127.0.0.1:{}", c.port()), "SECRET", 5s).error, "");
  EXPECT_EQ(a.connect(fmt::format("127.0.0.1:{}", c.port()), "secret", 20s).error, "");
  other.join();
}

}  // namespace
}  // namespace trireme::doctor
