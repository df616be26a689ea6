#include "trainer/config/rank_list.h"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <string_view>

namespace trireme::config {
namespace {

constexpr int kHighestRank = 1 << 20;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool read_rank(std::string_view text, int& rank) {
  text = trimmed(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return error == std::errc() && end == text.data() + text.size() && rank >= 0 && rank < kHighestRank;
}

}  // namespace

RankList read_ranks(const std::string& text) {
  RankList list;
  if (trimmed(text).empty()) return list;
  std::set<int> seen;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    const size_t dash = item.find('-');
    int first = 0, last = 0;
    const bool reads = dash == std::string_view::npos
                           ? read_rank(item, first) && ((last = first), true)
                           : read_rank(item.substr(0, dash), first) && read_rank(item.substr(dash + 1), last);
    if (!reads || last < first) {
      list.wrong = fmt::format("is no list of ranks at '{}': write ranks from 0, as in \"0-3,6\"", item);
      return list;
    }
    for (int rank = first; rank <= last; ++rank) {
      if (!seen.insert(rank).second) {
        list.wrong = fmt::format("names rank {} twice", rank);
        return list;
      }
      list.ranks.push_back(rank);
    }
  }
  return list;
}

}  // namespace trireme::config
