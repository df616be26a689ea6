#include "trainer/algorithms/rejection_sampling.h"

#include <gtest/gtest.h>

namespace trireme::algorithms {
namespace {

using Tokens = std::vector<int32_t>;

const std::vector<Tokens> kSaid{{1, 2}, {3}, {1, 2}, {4}, {5}, {}};

std::vector<Attempt> attempts(const std::vector<bool>& accepted) {
  std::vector<Attempt> result;
  for (size_t i = 0; i < accepted.size(); ++i) result.push_back({kSaid[i], accepted[i]});
  return result;
}

TEST(RejectionSampling, KeepsWhatIsAcceptedInOrder) {
  EXPECT_EQ(select_accepted(attempts({true, false, true, false, true, true}), 0, false).kept,
            (std::vector<size_t>{0, 2, 4, 5}));
  EXPECT_TRUE(select_accepted(attempts({false, false}), 0, false).kept.empty());
  EXPECT_TRUE(select_accepted({}, 3, true).kept.empty());
}

TEST(RejectionSampling, KeepsTheSameOnce) {
  const Selection selection = select_accepted(attempts({true, true, true, true}), 0, true);
  EXPECT_EQ(selection.kept, (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(selection.duplicates, 1);
  // A rejected twin does not count.
  EXPECT_EQ(select_accepted(attempts({false, true, true}), 0, true).kept, (std::vector<size_t>{1, 2}));
}

TEST(RejectionSampling, KeepsAtMostSoManyDistinctOnes) {
  EXPECT_EQ(select_accepted(attempts({true, true, true, true, true}), 3, true).kept,
            (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(select_accepted(attempts({true, true, true, true, true}), 2, false).kept,
            (std::vector<size_t>{0, 1}));
}

TEST(RejectionSampling, LeavesOutWhatIsKnown) {
  const Selection selection = select_accepted(attempts({true, true, true}), 0, true, {{1, 2}, {9}});
  EXPECT_EQ(selection.kept, (std::vector<size_t>{1}));
  EXPECT_EQ(selection.duplicates, 2);
}

}  // namespace
}  // namespace trireme::algorithms
