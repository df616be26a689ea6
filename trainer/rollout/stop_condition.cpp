#include "trainer/rollout/stop_condition.h"

#include <algorithm>
#include <string>

namespace trireme::rollout {

StopCondition::StopCondition(const std::vector<int32_t>& stop_ids, int64_t vocab_size)
    : is_stop_token_(vocab_size, false) {
  for (const int32_t id : stop_ids) {
    if (id >= 0 && id < vocab_size) is_stop_token_[id] = true;
  }
}

bool StopCondition::is_met(const std::vector<std::string>& stop, Response& response) const {
  return is_stop_token_[response.tokens.back()] || (!stop.empty() && ends_with_string(stop, response));
}

bool StopCondition::ends_with_string(const std::vector<std::string>& stop, Response& response) const {
  size_t longest = 0;
  for (const std::string& text : stop) longest = std::max(longest, text.size());
  // The end of the text, as far back as a string that ends in the last token can reach.
  std::string end(token_text_(response.tokens.back()));
  const size_t added = end.size();
  if (added == 0) return false;
  auto token = response.tokens.rbegin() + 1;
  for (; token != response.tokens.rend() && end.size() < added + longest - 1; ++token)
    end.insert(0, token_text_(*token));

  // Of several the one that is complete first, as if the text came byte by byte; then the longest.
  const size_t before = end.size() - added;
  size_t first_end = std::string::npos, begin = 0;
  for (size_t i = 0; i < stop.size(); ++i) {
    const size_t length = stop[i].size();
    const size_t found = end.find(stop[i], before + 1 > length ? before + 1 - length : 0);
    if (found == std::string::npos || found + length > first_end) continue;
    if (found + length == first_end && found >= begin) continue;
    first_end = found + length;
    begin = found;
    response.stop_string = static_cast<int32_t>(i);
  }
  if (first_end == std::string::npos) return false;
  response.text_length = static_cast<int64_t>(begin);
  for (; token != response.tokens.rend(); ++token)
    response.text_length += static_cast<int64_t>(token_text_(*token).size());
  return true;
}

}  // namespace trireme::rollout
