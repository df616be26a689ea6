#include "trainer/rewards/journal.h"

#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::rewards {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string hash(const std::string& text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

Journal::Journal(std::string folder, std::string source, std::string writer)
    : folder_(std::move(folder)), source_(std::move(source)), writer_(std::move(writer)) {}

void Journal::read(int64_t step) {
  read_step_ = step;
  entries_.clear();
  const std::string start = fmt::format("step_{}.", step);
  std::error_code ignored;
  for (fs::directory_iterator file(source_, ignored), end; !ignored && file != end; file.increment(ignored)) {
    if (!file->path().filename().string().starts_with(start)) continue;
    std::istringstream lines(files::read(file->path().string()));
    for (std::string line; std::getline(lines, line);) {
      // A run that was ended while it wrote leaves half a line: that judgement is asked for again.
      const json entry = json::parse(line, nullptr, false);
      if (!entry.is_object() || !entry.contains("extras")) continue;
      Entry& known = entries_[entry.at("name").get<std::string>()];
      entry.at("response").get_to(known.response);
      entry.at("score").get_to(known.score.value);
      entry.at("correct").get_to(known.score.correct);
      entry.at("has_format").get_to(known.score.has_format);
      entry.at("extras").get_to(known.score.extras);
      known.score.answer = entry.value("answer", "");
    }
  }
}

std::optional<Score> Journal::find(const JudgementKey& key, const std::string& response) {
  if (key.step < 0) return std::nullopt;
  if (key.step != read_step_) read(key.step);
  const auto place = entries_.find(key.name);
  if (place == entries_.end() || place->second.response != hash(response)) return std::nullopt;
  return place->second.score;
}

void Journal::record(const JudgementKey& key, const std::string& response, const Score& score) {
  if (key.step < 0) return;
  const json entry{{"name", key.name},          {"response", hash(response)},       {"score", score.value},
                   {"correct", score.correct}, {"has_format", score.has_format}, {"extras", score.extras},
                   {"answer", score.answer}};
  unwritten_[key.step] += entry.dump() + "\n";
}

void Journal::flush() {
  for (const auto& [step, lines] : unwritten_) {
    fs::create_directories(folder_);
    const std::string path = fmt::format("{}/step_{}.{}.jsonl", folder_, step, writer_);
    std::ofstream file(path, std::ios::app | std::ios::binary);
    if (!(file << lines).flush())
      fail(ErrorCode::io, "the rewards' journal {} cannot be written: {}", path, std::strerror(errno));
  }
  unwritten_.clear();
}

}  // namespace trireme::rewards
