#include "launcher/commands/examine_host.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::commands {
namespace {

TEST(RoundsOfPairs, MeetEveryPairOnceAndNobodyTwiceInARound) {
  for (int count = 0; count <= 33; ++count) {
    std::set<std::pair<int, int>> met;
    const auto rounds = rounds_of_pairs(count);
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_TRUE(a >= 0 && b < count);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << "of " << count;
        EXPECT_TRUE(met.insert({a, b}).second) << a << " and " << b << " of " << count;
      }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(count * (count - 1) / 2));
    EXPECT_LE(rounds.size(), static_cast<size_t>(count + count % 2));
  }
}

}  // namespace
}  // namespace trireme::commands
