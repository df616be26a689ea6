#include <algorithm>
#include <array>

#include "trainer/answers/answer.h"

namespace trireme::answers {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// From an opening brace to the one that closes it: what is inside.
std::optional<std::string_view> braced(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      continue;
    }
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return text.substr(1, i - 1);
  }
  return std::nullopt;
}

// "**" and "$" around an answer, and the sentence's point at its end.
std::string_view bare(std::string_view text) {
  text = trimmed(text);
  while (!text.empty() && (text[0] == '*' || text[0] == ':' || text[0] == '_' || text[0] == '`'))
    text = trimmed(text.substr(1));
  while (!text.empty() && (text.back() == '.' || text.back() == '*' || text.back() == '`' ||
                           text.back() == '!' || text.back() == ','))
    text = trimmed(text.substr(0, text.size() - 1));
  return text;
}

// Behind the last "answer is", "answer:" and the like, up to the end of the line or sentence.
std::optional<std::string_view> announced(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kMarks = {
      "answer is", "answer:", "answer**:", "answer:**", "answer is:", "####"};
  const std::string small = lower(text);
  size_t begin = std::string::npos;
  for (const std::string_view mark : kMarks)
    if (const size_t at = small.rfind(mark); at != std::string::npos)
      begin = begin == std::string::npos ? at + mark.size() : std::max(begin, at + mark.size());
  if (begin == std::string::npos) return std::nullopt;
  std::string_view rest = text.substr(begin);
  while (!rest.empty() &&
         (kSpace.find(rest[0]) != std::string_view::npos || rest[0] == ':' || rest[0] == '*'))
    rest.remove_prefix(1);
  rest = rest.substr(0, rest.find('\n'));
  rest = rest.substr(0, rest.find("**"));
  for (size_t at = 0; (at = rest.find(". ", at)) != std::string_view::npos; ++at)
    if (at > 0 && !(is_digit(rest[at - 1]) && is_digit(rest[at + 2]))) {
      rest = rest.substr(0, at);
      break;
    }
  rest = bare(rest);
  return rest.empty() ? std::nullopt : std::optional(rest);
}

// The last formula between $...$, $$...$$, \(...\) or \[...\].
std::optional<std::string_view> last_formula(std::string_view text) {
  std::optional<std::string_view> found;
  size_t found_at = 0;
  for (const auto& [open, close] : {std::pair{"\\(", "\\)"}, std::pair{"\\[", "\\]"}})
    if (const size_t end = text.rfind(close); end != std::string_view::npos)
      if (const size_t begin = text.rfind(open, end); begin != std::string_view::npos && begin >= found_at) {
        found = text.substr(begin + 2, end - begin - 2);
        found_at = begin;
      }
  const size_t end = text.rfind('$');
  if (end != std::string_view::npos && end > 0) {
    const size_t last = end > 0 && text[end - 1] == '$' ? end - 1 : end;
    const size_t begin = last > 0 ? text.rfind('$', last - 1) : std::string_view::npos;
    // Two amounts of dollars are no formula.
    if (begin != std::string_view::npos && begin >= found_at) {
      const auto inside = text.substr(begin + 1, last - begin - 1);
      const bool prose =
          inside.find('\n') != std::string_view::npos ||
          (inside.find(' ') != std::string_view::npos && !inside.empty() && is_digit(inside[0]) &&
           std::ranges::count_if(inside, is_letter) > 3 && inside.find('\\') == std::string_view::npos);
      if (!prose) found = inside;
    }
  }
  if (!found || trimmed(*found).empty()) return std::nullopt;
  // Text behind a formula may hold a later number, but is no later formula.
  return trimmed(*found);
}

}  // namespace

std::optional<std::string> last_boxed(std::string_view text) {
  for (size_t from = std::string_view::npos;;) {
    const size_t box = text.rfind("boxed", from), frame = text.rfind("\\fbox", from);
    size_t at = box == std::string_view::npos     ? frame
                : frame == std::string_view::npos ? box
                                                  : std::max(box, frame);
    if (at == std::string_view::npos) return std::nullopt;
    const size_t before = at;
    at += 5;
    while (at < text.size() && text[at] == ' ') ++at;
    if (at < text.size() && text[at] == '{') {
      if (const auto inside = braced(text.substr(at))) return std::string(trimmed(*inside));
    } else if (at > before + 5 && before > 0 && text[before - 1] == '\\') {  // \boxed 5
      const size_t end = text.find_first_of(" $\n", at);
      return std::string(bare(text.substr(at, end == std::string_view::npos ? end : end - at)));
    }
    if (before == 0) return std::nullopt;
    from = before - 1;
  }
}

std::optional<std::string> last_number(std::string_view text) {
  for (size_t end = text.size(); end > 0; --end) {
    if (!is_digit(text[end - 1])) continue;
    size_t begin = end - 1;
    while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.' || text[begin - 1] == ','))
      --begin;
    while (text[begin] == ',' || (text[begin] == '.' && !is_digit(text[begin + 1]))) ++begin;
    // A minus belongs to the number unless something is subtracted: "10-3", "5 - 3".
    if (begin > 0 && text[begin - 1] == '-' &&
        (begin < 2 || (!is_digit(text[begin - 2]) && text[begin - 2] != ')' && !is_letter(text[begin - 2]))))
      --begin;
    return std::string(text.substr(begin, end - begin));
  }
  return std::nullopt;
}

std::optional<std::string> find_answer(std::string_view response, AnswerPlace place) {
  constexpr std::string_view kThought = "</think>";
  if (const size_t end = response.rfind(kThought); end != std::string_view::npos)
    response.remove_prefix(end + kThought.size());
  if (auto boxed = last_boxed(response)) return boxed;
  if (place == AnswerPlace::boxed) return std::nullopt;
  if (const auto tag = response.rfind("<answer>"); tag != std::string_view::npos) {
    const auto inside = response.substr(tag + 8);
    return std::string(bare(inside.substr(0, inside.find("</answer>"))));
  }
  if (const auto said = announced(response)) return std::string(*said);
  if (const auto formula = last_formula(response)) return std::string(*formula);
  // A response that is nothing but the answer.
  const auto whole = bare(response);
  if (!whole.empty() && whole.size() <= 64 && whole.find('\n') == std::string_view::npos &&
      std::ranges::count(whole, ' ') <= 3 &&
      (is_digit(whole[0]) || whole[0] == '-' || whole[0] == '\\' || whole[0] == '(' || whole[0] == '['))
    return std::string(whole);
  return last_number(response);
}

}  // namespace trireme::answers
