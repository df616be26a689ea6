#include "trainer/rewards/http_judge.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme::rewards {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using nlohmann::json;

constexpr size_t kLargestAnswer = 1 << 20;  // bytes
constexpr size_t kTold = 20;                // failures that are told in full

// "Authorization: Bearer ${TOKEN}": secrets stand in the environment, not in a file.
std::string with_environment(const std::string& header) {
  std::string text = header;
  for (size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at)) {
    const size_t end = text.find('}', at);
    if (end == std::string::npos) break;
    const std::string name = text.substr(at + 2, end - at - 2);
    const char* value = std::getenv(name.c_str());
    if (!value)
      fail(ErrorCode::invalid_config, "reward.http.headers: the environment variable {} is not set", name);
    text.replace(at, end + 1 - at, value);
    at += std::string(value).size();
  }
  return text;
}

bool may_pass(long status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

class HttpJudge final : public OutsideJudge {
 public:
  HttpJudge(const HttpConfig& config, std::function<void()> sign_of_life)
      : config_(config), sign_of_life_(std::move(sign_of_life)) {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (started != CURLE_OK) fail(ErrorCode::io, "libcurl: {}", curl_easy_strerror(started));
    add_header("Content-Type: application/json");
    add_header("Expect:");  // no round trip before the body
    for (const std::string& header : config.headers) add_header(with_environment(header));
    multi_ = curl_multi_init();
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(config_.connections));
    thread_ = std::thread([this] { run(); });
  }

  ~HttpJudge() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    for (const auto& [handle, call] : under_way_) {
      curl_multi_remove_handle(multi_, handle);
      curl_easy_cleanup(handle);
    }
    for (CURL* handle : idle_) curl_easy_cleanup(handle);
    curl_multi_cleanup(multi_);
  }

  int64_t submit(std::string request) override {
    int64_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      ticket = next_ticket_++;
      // {"id":7, and then the rest of the object
      waiting_.emplace(Clock::now(),
                       Call{ticket, fmt::format("{{\"id\":{},{}", ticket, request.substr(1)), {}});
    }
    curl_multi_wakeup(multi_);
    return ticket;
  }

  Outcome wait(int64_t ticket) override {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [&] { return settled_.contains(ticket); }))
      if (sign_of_life_) sign_of_life_();
    return settled_.extract(ticket).mapped();
  }

  bool is_judged(int64_t ticket) override {
    const std::lock_guard lock(mutex_);
    return settled_.contains(ticket);
  }

  void wait_until_ready() override {}  // a service that is still starting is waited for by trying again

  ScorerStats take_stats() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(stats_, {});
  }

 private:
  struct Call {
    int64_t ticket = 0;
    std::string request;
    std::string answer;
    int64_t failures = 0;
    bool is_too_large = false;
  };

  void add_header(const std::string& header) {
    headers_.reset(curl_slist_append(headers_.release(), header.c_str()));
  }

  void run() {
    for (;;) {
      const int pause_ms = start_those_due();
      if (pause_ms < 0) return;
      int running = 0;
      curl_multi_perform(multi_, &running);
      int left = 0;
      bool any = false;
      while (const CURLMsg* message = curl_multi_info_read(multi_, &left))
        if (message->msg == CURLMSG_DONE) {
          any = true;
          finish(message->easy_handle, message->data.result);
        }
      if (!any) curl_multi_poll(multi_, nullptr, 0, pause_ms, nullptr);
    }
  }

  // -> milliseconds until the next one is due; below 0: it is over.
  int start_those_due() {
    const std::lock_guard lock(mutex_);
    if (stop_) return -1;
    auto now = Clock::now();
    while (!waiting_.empty() && static_cast<int64_t>(under_way_.size()) < config_.connections) {
      const auto due = std::max(waiting_.begin()->first, next_start_);
      if (due > now)
        return 1 + static_cast<int>(std::min<double>(
                       1000, std::chrono::duration_cast<std::chrono::milliseconds>(due - now).count()));
      start(std::move(waiting_.extract(waiting_.begin()).mapped()));
      if (config_.max_per_second > 0)
        next_start_ = std::max(now, next_start_) +
                      std::chrono::duration_cast<Clock::duration>(Seconds(1.0 / config_.max_per_second));
    }
    return 1000;
  }

  static size_t receive(char* bytes, size_t, size_t count, void* call) {
    auto& mine = *static_cast<Call*>(call);
    mine.is_too_large = mine.answer.size() + count > kLargestAnswer;
    if (mine.is_too_large) return 0;  // ends the transfer
    mine.answer.append(bytes, count);
    return count;
  }

  void start(Call call) {
    CURL* handle = idle_.empty() ? curl_easy_init() : idle_.back();
    if (!idle_.empty()) idle_.pop_back();
    TRIREME_CHECK(handle, "libcurl has no memory");
    Call& mine = under_way_[handle] = std::move(call);
    mine.answer.clear();
    mine.is_too_large = false;
    curl_easy_setopt(handle, CURLOPT_URL, config_.url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(mine.request.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, mine.request.data());
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &HttpJudge::receive);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &mine);
    const auto limit = static_cast<long>(std::max(1.0, config_.timeout_s * 1000));
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, limit);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, limit);
    curl_multi_add_handle(multi_, handle);
  }

  void finish(CURL* handle, CURLcode result) {
    long status = 0;
    curl_off_t retry_after = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &retry_after);
    curl_multi_remove_handle(multi_, handle);
    Call call = std::move(under_way_.extract(handle).mapped());
    idle_.push_back(handle);
    if (call.is_too_large)
      return failed(std::move(call), "its answer is larger than 1 MiB", false, 0);
    if (result == CURLE_OPERATION_TIMEDOUT) {
      {
        const std::lock_guard lock(mutex_);
        ++stats_.timeouts;
      }
      return failed(std::move(call),
                    fmt::format("it took longer than {} s (reward.http.timeout_s)", config_.timeout_s), true, 0);
    }
    if (result != CURLE_OK) {
      const bool hopeless = result == CURLE_URL_MALFORMAT || result == CURLE_UNSUPPORTED_PROTOCOL;
      return counted(std::move(call), curl_easy_strerror(result), !hopeless, 0);
    }
    const std::string start = call.answer.substr(0, 200);
    if (status < 200 || status >= 300)
      return counted(std::move(call), fmt::format("HTTP status {}{}{}", status, start.empty() ? "" : ": ", start),
                     may_pass(status), static_cast<double>(retry_after));
    auto outcome = outcome_of(json::parse(call.answer, nullptr, false));
    if (!outcome) return counted(std::move(call), "its answer has no score: " + start, false, 0);
    settle(call.ticket, std::move(*outcome));
  }

  void counted(Call call, const std::string& what, bool again, double asked_pause) {
    {
      const std::lock_guard lock(mutex_);
      ++stats_.errors;
    }
    failed(std::move(call), what, again, asked_pause);
  }

  // Each kind of failure is told once; after that it is counted.
  void failed(Call call, const std::string& what, bool again, double asked_pause) {
    if (told_.size() < kTold && told_.insert(what).second) log::warn("{}: {}", config_.url, what);
    ++call.failures;
    if (!again || call.failures > config_.retries)
      return settle(call.ticket, {.failure = fmt::format("{}: {}", config_.url, what),
                                   .attempts = call.failures});
    // Doubled each time, and shortened by up to a half, so that what failed together does not come together.
    const double doubled = config_.backoff_s * std::exp2(std::min<double>(30, static_cast<double>(call.failures - 1)));
    const double share = 1 - 0.5 * static_cast<double>(random_bits(0, static_cast<uint64_t>(call.ticket),
                                                                   static_cast<uint64_t>(call.failures)) >> 11) /
                                 static_cast<double>(uint64_t{1} << 53);
    const double pause = std::min(std::max(doubled * share, asked_pause), config_.max_backoff_s);
    const std::lock_guard lock(mutex_);
    waiting_.emplace(Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(pause)), std::move(call));
  }

  void settle(int64_t ticket, Outcome outcome) {
    const std::lock_guard lock(mutex_);
    if (outcome.failure.empty()) ++stats_.scores;
    settled_[ticket] = std::move(outcome);
    changed_.notify_all();
  }

  const HttpConfig config_;
  const std::function<void()> sign_of_life_;
  CURLM* multi_ = nullptr;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_{nullptr, &curl_slist_free_all};
  std::map<CURL*, Call> under_way_;  // the thread's own, as all that has no mutex
  std::vector<CURL*> idle_;
  std::set<std::string> told_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Call> waiting_;  // by when they are due
  Clock::time_point next_start_{};
  std::map<int64_t, Outcome> settled_;
  ScorerStats stats_;
  int64_t next_ticket_ = 0;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<OutsideJudge> http_judge(const HttpConfig& config, std::function<void()> sign_of_life) {
  return std::make_unique<HttpJudge>(config, std::move(sign_of_life));
}

}  // namespace trireme::rewards
