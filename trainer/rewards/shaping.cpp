#include "trainer/rewards/shaping.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <unordered_set>

namespace trireme::rewards {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

std::string_view without_space(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text;
}

size_t count(std::string_view text, std::string_view what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size()))
    ++found;
  return found;
}

}  // namespace

bool has_tags(std::string_view response, std::span<const std::string> tags) {
  std::string_view rest = without_space(response);
  for (size_t i = 0; i < tags.size(); ++i) {
    const std::string open = "<" + tags[i] + ">", close = "</" + tags[i] + ">";
    const size_t opened = count(response, open);
    if (opened > 1 || count(response, close) != 1) return false;
    if (rest.starts_with(open))
      rest.remove_prefix(open.size());
    else if (i > 0 || opened > 0)
      return false;
    const size_t end = rest.find(close);
    if (end == std::string_view::npos || without_space(rest.substr(0, end)).empty()) return false;
    rest = without_space(rest.substr(end + close.size()));
  }
  return rest.empty();
}

double repetition(std::string_view response, int64_t ngram_size) {
  std::vector<std::string_view> words;
  for (size_t begin = response.find_first_not_of(kSpace); begin != std::string_view::npos;) {
    const size_t end = std::min(response.find_first_of(kSpace, begin), response.size());
    words.push_back(response.substr(begin, end - begin));
    begin = response.find_first_not_of(kSpace, end);
  }
  const auto size = static_cast<size_t>(ngram_size);
  if (words.size() < size) return 0.0;
  std::unordered_set<std::string> seen;
  const size_t total = words.size() - size + 1;
  for (size_t i = 0; i < total; ++i) {
    std::string ngram;
    for (size_t k = 0; k < size; ++k) {
      for (const char c : words[i + k])
        ngram.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
      ngram.push_back(' ');
    }
    seen.insert(std::move(ngram));
  }
  return -(1.0 - static_cast<double>(seen.size()) / static_cast<double>(total));
}

double cosine_length(bool correct, int64_t tokens, int64_t max_tokens, const CosineConfig& config) {
  const double progress = std::clamp(static_cast<double>(tokens) / static_cast<double>(max_tokens), 0.0, 1.0);
  const double at_zero = correct ? config.correct_short : config.wrong_short;
  const double at_end = correct ? config.correct_long : config.wrong_long;
  return at_end + 0.5 * (at_zero - at_end) * (1.0 + std::cos(progress * std::numbers::pi));
}

}  // namespace trireme::rewards
