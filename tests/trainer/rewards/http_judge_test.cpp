// A service that judges: what it may do wrong, and what becomes of the responses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "runtime/base/error.h"
#include "tests/trainer/rewards/http_server.h"
#include "trainer/rewards/scorer.h"

namespace trireme::rewards {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class HttpJudgeTest : public testing::Test {
 protected:
  HttpJudgeTest() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    config_.http.backoff_s = 0.001;
    config_.http.retries = 3;
    config_.scorer.on_failure = "default";
    config_.scorer.default_score = -7;
  }
  std::unique_ptr<Scorer> asking(const std::string& url, ScorerOptions options = {}) {
    config_.http.url = url;
    return make_scorer(config_, *rule_, std::move(options));
  }
  // What came of a single response.
  Score judged(const HttpServer::Handler& handler) {
    const HttpServer server(handler);
    const auto scorer = asking(server.url());
    const Score score = scorer->score({"s", "r", "g", ""});
    stats_ = scorer->take_stats();
    requests_ = server.requests();
    return score;
  }
  // Fails with `first` as often as said, then gives 1.
  static HttpServer::Handler fails(int times, HttpAnswer first) {
    return [times, first, count = std::make_shared<std::atomic<int>>(0)](const json&, const std::string&) {
      return (*count)++ < times ? first : HttpAnswer{};
    };
  }

  RewardConfig config_;
  std::unique_ptr<Reward> rule_ = make_reward({});
  ScorerStats stats_;
  int64_t requests_ = 0;
};

TEST_F(HttpJudgeTest, AServiceGetsWhatAProgramGetsAndAnswersAlike) {
  ::setenv("HTTP_JUDGE_TEST_TOKEN", "secret", 1);
  config_.http.headers = {"Authorization: Bearer ${HTTP_JUDGE_TEST_TOKEN}"};
  json asked;
  std::string headers;
  const HttpServer server([&](const json& body, const std::string& with) {
    asked = body;
    headers = with;
    return HttpAnswer{.body = R"({"score": 0.5, "acc": true, "words": 3, "pred": "x", "note": "text"})"};
  });
  const auto scorer = asking(server.url());
  const Score score = scorer->score({"source", "so be it", "truth", R"({"k": [1]})"});
  EXPECT_EQ(asked, (json{{"id", 0},
                         {"data_source", "source"},
                         {"solution_str", "so be it"},
                         {"ground_truth", "truth"},
                         {"extra_info", {{"k", {1}}}}}));
  EXPECT_THAT(headers, HasSubstr("POST /score HTTP/1.1"));
  EXPECT_THAT(headers, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(headers, HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_EQ(score.value, 0.5);
  EXPECT_TRUE(score.correct);
  EXPECT_EQ(score.answer, "x");
  EXPECT_EQ(score.extras, (std::map<std::string, double>{{"acc", 1.0}, {"words", 3.0}}));
  EXPECT_EQ(scorer->take_stats().scores, 1);
}

TEST_F(HttpJudgeTest, ManyResponsesGoOverAFewConnections) {
  config_.http.connections = 3;
  const HttpServer server([](const json& body, const std::string&) {
    const auto n = std::stoll(body.at("solution_str").get<std::string>());
    return HttpAnswer{.body = json{{"score", n}}.dump(), .delay = std::chrono::milliseconds(n % 4)};
  });
  const auto scorer = asking(server.url());
  std::vector<int64_t> tickets;
  for (int i = 0; i < 100; ++i) tickets.push_back(scorer->submit({"s", std::to_string(i), "g", ""}));
  for (int i = 99; i >= 0; --i) EXPECT_EQ(scorer->wait(tickets[static_cast<size_t>(i)]).value, i);
  EXPECT_EQ(server.requests(), 100);
  EXPECT_LE(server.most_at_once(), 3);
  EXPECT_LE(server.connections(), 3);
}

TEST_F(HttpJudgeTest, WhatMayPassIsTriedAgain) {
  for (const int status : {408, 425, 429, 500, 502, 503, 504}) {
    EXPECT_EQ(judged(fails(2, {.status = status, .body = "busy"})).value, 1.0) << status;
    EXPECT_EQ(requests_, 3) << status;
    EXPECT_EQ(stats_.errors, 2) << status;
    EXPECT_EQ(stats_.defaults, 0) << status;
  }
  EXPECT_EQ(judged(fails(2, {.hangs_up = true})).value, 1.0);
  EXPECT_GE(requests_, 3);  // libcurl itself asks again where a kept connection was closed
}

TEST_F(HttpJudgeTest, WhatIsLateIsEndedAndTriedAgain) {
  config_.http.timeout_s = 0.2;
  EXPECT_EQ(judged(fails(1, {.delay = std::chrono::milliseconds(2000)})).value, 1.0);
  EXPECT_EQ(stats_.timeouts, 1);
}

TEST_F(HttpJudgeTest, WhatCannotPassFailsAtOnce) {
  const std::vector<HttpAnswer> hopeless{{.status = 400, .body = "what?"},
                                         {.status = 404},
                                         {.status = 302, .headers = "Location: /other\r\n"},
                                         {.body = "no JSON"},
                                         {.body = R"({"points": 3})"},
                                         {.body = R"([1])"},
                                         {.body = R"({"score": "high"})"},
                                         {.body = std::string((1 << 20) + 1, ' ')}};
  for (const HttpAnswer& answer : hopeless) {
    EXPECT_EQ(judged(fails(100, answer)).value, -7) << answer.status << answer.body.substr(0, 40);
    EXPECT_EQ(requests_, 1);
    EXPECT_EQ(stats_.defaults, 1);
  }
}

TEST_F(HttpJudgeTest, AServiceThatStaysBrokenEndsTheRunOrGivesADefault) {
  EXPECT_EQ(judged(fails(100, {.status = 500, .body = "out of order"})).value, -7);
  EXPECT_EQ(requests_, 4);
  config_.scorer.on_failure = "stop";
  try {
    judged(fails(100, {.status = 500, .body = "out of order"}));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.message(), HasSubstr("the reward service failed 4 times on one response"));
    EXPECT_THAT(error.message(), HasSubstr("HTTP status 500: out of order"));
  }
}

TEST_F(HttpJudgeTest, AServiceThatStartsLateIsWaitedFor) {
  int port = 0;
  { port = HttpServer(fails(0, {})).port(); }
  config_.http.retries = 1000;
  config_.http.max_backoff_s = 0.02;
  const auto scorer = asking("http://127.0.0.1:" + std::to_string(port) + "/score");
  const int64_t ticket = scorer->submit({"s", "r", "g", ""});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const HttpServer server(fails(0, {}), port);
  EXPECT_EQ(scorer->wait(ticket).value, 1.0);
  EXPECT_GT(scorer->take_stats().errors, 0);
}

// Pauses double, and hold what the service asks for: times from below alone, a machine may be slow.
TEST_F(HttpJudgeTest, PausesGrowAndAreWhatTheServiceAsksFor) {
  const auto seconds = [&](HttpAnswer answer) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(judged(fails(3, std::move(answer))).value, 1.0);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  config_.http.backoff_s = 0.05;
  EXPECT_GE(seconds({.status = 503}), 0.5 * (0.05 + 0.1 + 0.2));
  config_.http.backoff_s = 0;
  config_.http.max_backoff_s = 0.3;
  EXPECT_GE(seconds({.status = 429, .headers = "Retry-After: 60\r\n"}), 3 * 0.3);
}

TEST_F(HttpJudgeTest, RequestsKeepToTheRate) {
  config_.http.max_per_second = 100;
  const HttpServer server([](const json&, const std::string&) { return HttpAnswer{}; });
  const auto scorer = asking(server.url());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<int64_t> tickets;
  for (int i = 0; i < 20; ++i) tickets.push_back(scorer->submit({"s", "r", "g", ""}));
  for (const int64_t ticket : tickets) scorer->wait(ticket);
  EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 19 / 100.0);
}

TEST_F(HttpJudgeTest, TheJournalAnswersInItsPlace) {
  const fs::path folder = fs::temp_directory_path() / ("http_judge_test." + std::to_string(::getpid()));
  std::atomic<int> next{1};
  const HttpServer server([&](const json&, const std::string&) {
    return HttpAnswer{.body = json{{"score", next++}}.dump()};
  });
  const auto score = [&](const std::string& response) {
    const auto scorer = asking(server.url(), {.journal = folder.string()});
    const double value = scorer->score({"s", response, "g", "", 1, {4, "a/0"}}).value;
    scorer->take_stats();
    return value;
  };
  EXPECT_EQ(score("r"), 1);
  EXPECT_EQ(score("r"), 1);
  EXPECT_EQ(score("another"), 2);
  EXPECT_EQ(server.requests(), 2);
  fs::remove_all(folder);
}

TEST_F(HttpJudgeTest, ItEndsWithRequestsUnderWay) {
  const HttpServer server([](const json&, const std::string&) {
    return HttpAnswer{.delay = std::chrono::milliseconds(300)};
  });
  const auto scorer = asking(server.url());
  for (int i = 0; i < 40; ++i) scorer->submit({"s", "r", "g", ""});
  while (server.requests() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(HttpJudgeTest, ASecretThatIsNotThereIsNamed) {
  config_.http.headers = {"Authorization: ${NO_SUCH_VARIABLE_HERE}"};
  try {
    asking("http://127.0.0.1:1/");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_THAT(error.message(), HasSubstr("NO_SUCH_VARIABLE_HERE is not set"));
  }
}

}  // namespace
}  // namespace trireme::rewards
