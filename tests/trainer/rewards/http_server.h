// A small HTTP service for tests: answers as it is told, and counts.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace trireme::rewards {

struct HttpAnswer {
  int status = 200;
  std::string body = R"({"score": 1.0})";
  std::string headers = "";  // each with "\r\n"
  std::chrono::milliseconds delay{0};
  bool hangs_up = false;  // without a word
};

class HttpServer {
 public:
  /// `answer` gets the request's body and its headers; called by several threads.
  using Handler = std::function<HttpAnswer(const nlohmann::json& body, const std::string& headers)>;

  explicit HttpServer(Handler answer, int port = 0) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0)
      throw std::runtime_error("no port for the test's server");
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepter_ = std::thread([this] { accept(); });
  }
  ~HttpServer() {
    stop_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    accepter_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : talks_) thread.join();
    ::close(listener_);
  }

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/score"; }
  int64_t requests() const { return requests_; }
  int64_t connections() const { return connections_; }
  int64_t most_at_once() const { return most_; }

 private:
  void accept() {
    while (!stop_) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) continue;
      ++connections_;
      const std::lock_guard lock(mutex_);
      sockets_.push_back(socket);
      talks_.emplace_back([this, socket] { talk(socket); });
    }
  }

  void talk(int socket) {
    std::string text;
    const auto read_until = [&](const std::function<bool()>& enough) {
      char bytes[4096];
      while (!enough()) {
        const ssize_t count = ::recv(socket, bytes, sizeof bytes, 0);
        if (count <= 0) return false;
        text.append(bytes, static_cast<size_t>(count));
      }
      return true;
    };
    size_t end = 0;
    while (read_until([&] { return (end = text.find("\r\n\r\n")) != std::string::npos; })) {
      const std::string headers = text.substr(0, end + 4);
      std::string lower = headers;
      std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
      const size_t at = lower.find("content-length:");
      const size_t length = at == std::string::npos ? 0 : std::stoul(lower.substr(at + 15));
      if (!read_until([&] { return text.size() >= headers.size() + length; })) break;
      const auto body = nlohmann::json::parse(text.substr(headers.size(), length), nullptr, false);
      text.erase(0, headers.size() + length);
      ++requests_;
      most_ = std::max<int64_t>(most_, ++under_way_);
      const HttpAnswer answer = answer_(body, headers);
      std::this_thread::sleep_for(answer.delay);
      --under_way_;
      if (answer.hangs_up) break;
      const std::string reply = "HTTP/1.1 " + std::to_string(answer.status) + " X\r\n" + answer.headers +
                                "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
      if (::send(socket, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) break;
    }
    const std::lock_guard lock(mutex_);
    std::erase(sockets_, socket);
    ::close(socket);
  }

  const Handler answer_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> requests_{0}, connections_{0}, under_way_{0}, most_{0};
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::list<std::thread> talks_;
  std::thread accepter_;
};

}  // namespace trireme::rewards
