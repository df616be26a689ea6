#include "runtime/base/error.h"

#include <algorithm>
#include <array>

namespace trireme {
namespace {

constexpr std::array<std::pair<ErrorCode, const char*>, 10> kNames{{
    {ErrorCode::invalid_config, "invalid_config"},
    {ErrorCode::bad_shape, "bad_shape"},
    {ErrorCode::io, "io"},
    {ErrorCode::corrupt_data, "corrupt_data"},
    {ErrorCode::cuda, "cuda"},
    {ErrorCode::nccl, "nccl"},
    {ErrorCode::mpi, "mpi"},
    {ErrorCode::timeout, "timeout"},
    {ErrorCode::peer_failed, "peer_failed"},
    {ErrorCode::internal, "internal"},
}};

// Edits (insert, delete, replace, swap of neighbours) from a to b.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

const char* to_string(ErrorCode code) {
  for (const auto& [value, name] : kNames)
    if (value == code) return name;
  return "internal";
}

ErrorCode error_code_from(const std::string& name) {
  for (const auto& [value, text] : kNames)
    if (name == text) return value;
  fail(ErrorCode::internal, "no error code is named '{}'", name);
}

ExitStatus exit_status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_config:
      return ExitStatus::bad_input;
    case ErrorCode::timeout:
      return ExitStatus::timed_out;
    default:
      return ExitStatus::failed;
  }
}

Error::Error(ErrorCode code, std::string message, std::string where)
    : std::runtime_error(where.empty() ? message : fmt::format("{} [{}]", message, where)),
      code_(code),
      message_(std::move(message)),
      where_(std::move(where)) {}

Error& Error::on(int rank, std::string host) {
  rank_ = rank;
  host_ = std::move(host);
  return *this;
}

void Mistakes::add(std::string where, std::string what) {
  lines_.push_back(where.empty() ? std::move(what) : fmt::format("{}: {}", where, what));
}

void Mistakes::throw_if_any(const std::string& heading) const {
  if (lines_.empty()) return;
  std::string text = heading;
  for (const auto& line : lines_) text += "\n  " + line;
  throw Error(ErrorCode::invalid_config, text);
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace trireme
