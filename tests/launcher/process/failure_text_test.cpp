#include "launcher/process/failure_text.h"

#include <gtest/gtest.h>

#include <csignal>

namespace trireme::process {
namespace {

RankRecord killed() {
  RankRecord record{.host = "n3"};
  record.exit = plan::Exit{.signaled = true, .status = SIGKILL};
  return record;
}

std::string text_of(const RankRecord& record) {
  return failure_text({.rank = 5, .status = 3, .what = "was killed by SIGKILL"}, record, 8,
                      "/nowhere/rank-5.log");
}

TEST(FailureText, GuessesWhoKilledARankWhereNobodyKnows) {
  const auto text = text_of(killed());
  EXPECT_NE(text.find("rank 5 of 8 on n3 was killed by SIGKILL"), std::string::npos) << text;
  EXPECT_NE(text.find("it was the kernel, for lack of memory: `dmesg | tail` tells"), std::string::npos)
      << text;
}

TEST(FailureText, QuotesTheKernelInsteadOfGuessing) {
  auto record = killed();
  record.exit->kernel = {"Out of memory: Killed process 4711 (trireme-trainer)\x1b[31m"};
  const auto text = text_of(record);
  EXPECT_NE(
      text.find(
          "what the kernel of n3 wrote meanwhile:\n  | Out of memory: Killed process 4711 (trireme-trainer)"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("`dmesg"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "nothing in it moves the terminal";
}

TEST(FailureText, QuotesWhatNcclSaysOfAStall) {
  auto record = killed();
  record.nccl = {"Errors", "#0-0 MISMATCH"};
  EXPECT_NE(text_of(record).find("what NCCL says of it:\n  | Errors\n  | #0-0 MISMATCH"), std::string::npos);
}

}  // namespace
}  // namespace trireme::process
