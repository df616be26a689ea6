#include "launcher/process/nccl_ras.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::process {
namespace {

constexpr int kPeersLimit = 2;  // seconds that NCCL gives processes which do not answer
constexpr auto kLimit = std::chrono::seconds(kPeersLimit + 1);
constexpr size_t kLongestLine = 64 << 10, kMostLines = 30;

bool is_section(const std::string& line) {
  return line.starts_with("Errors") || line.starts_with("Warnings");
}

}  // namespace

RasQuery::RasQuery(const std::string& address) : deadline_(Clock::now() + kLimit) {
  auto where = address.empty() ? std::string("127.0.0.1:28028") : address;
  if (where.starts_with("localhost:")) where.replace(0, 9, "127.0.0.1");
  try {
    connection_ = Connection::to(where);
  } catch (const Error&) {
    return;  // no NCCL, or one without RAS
  }
  connection_.send(fmt::format("timeout {}\n", kPeersLimit));
  connection_.send("verbose status\n");
}

bool RasQuery::receive() {
  connection_.flush();
  connection_.receive(kLongestLine, [&](std::string line) { lines_.push_back(std::move(line)); });
  return !connection_.is_open() || Clock::now() >= deadline_;
}

std::vector<std::string> RasQuery::findings() const {
  auto begin = std::find_if(lines_.begin(), lines_.end(), is_section);
  if (begin == lines_.end()) begin = lines_.begin();
  std::vector<std::string> found;
  for (auto line = begin; line != lines_.end() && found.size() < kMostLines; ++line)
    if (!line->empty() && *line != "OK" && line->find_first_not_of("= ") != std::string::npos)
      found.push_back(*line);
  return found;
}

}  // namespace trireme::process
