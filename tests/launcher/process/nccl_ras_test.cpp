// NCCL's side is a server of a few lines that answers as NCCL's user guide shows.
#include "launcher/process/nccl_ras.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

namespace trireme::process {
namespace {

struct Answer {
  std::string question;
  std::vector<std::string> findings;
};

Answer ask(const std::string& text, bool closes = true) {
  Listener nccl(Listener::Reach::this_host);
  Answer answer;
  std::thread server([&] {
    Connection client;
    while (!client.is_open()) client = nccl.accept();
    for (int lines = 0; lines < 2;)
      client.receive(4096, [&](const std::string& line) {
        answer.question += line + ";";
        ++lines;
      });
    client.send(text);
    if (!closes) ::sleep(5);
  });
  RasQuery query(nccl.addresses());
  while (true) {
    pollfd watched{query.fd(), POLLIN, 0};
    ::poll(&watched, 1, milliseconds_until(query.deadline()));
    if (query.receive()) break;
  }
  server.join();
  answer.findings = query.findings();
  return answer;
}

const std::string kSummary =
    "OK\nJob summary\n===========\n\n  Nodes  Processes         GPUs\n      4          8            1\n\n";

TEST(RasQuery, TakesWhatIsWrong) {
  const auto answer =
      ask(kSummary +
          "Warnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different "
          "collective operation counts\n  26 ranks have launched up to operation 6650\n");
  EXPECT_EQ(answer.question, "timeout 2;verbose status;");
  EXPECT_EQ(answer.findings,
            (std::vector<std::string>{"Warnings", "#0-0 (27a079b828ff1a75) MISMATCH",
                                      "  Communicator ranks have different collective operation counts",
                                      "  26 ranks have launched up to operation 6650"}));
}

TEST(RasQuery, TakesTheSummaryWhereNothingIsWrong) {
  const auto answer = ask(kSummary);
  ASSERT_FALSE(answer.findings.empty());
  EXPECT_EQ(answer.findings[0], "Job summary");
}

TEST(RasQuery, TakesWhatHasComeFromAServerThatHangs) {
  EXPECT_EQ(ask("Errors\n", false).findings, std::vector<std::string>{"Errors"});
}

TEST(RasQuery, IsEmptyWhereNobodyListens) {
  RasQuery query("127.0.0.1:1");
  EXPECT_TRUE(query.receive());
  EXPECT_TRUE(query.findings().empty());
  EXPECT_TRUE(RasQuery("[::1]:28028").receive()) << "an address that we cannot use is no error either";
}

}  // namespace
}  // namespace trireme::process
