#include "trainer/rewards/answer_rules.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/answers/answer.h"
#include "trainer/rewards/answer_number.h"

namespace trireme::rewards {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kAnswerMark = "####";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string with_single_spaces(std::string_view text) {
  std::string result;
  for (const char c : trimmed(text)) {
    const bool space = kSpace.find(c) != std::string_view::npos;
    if (!space) result.push_back(c);
    if (space && result.back() != ' ') result.push_back(' ');
  }
  return result;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal(const std::string& answer, const std::string& truth) {
  return answer == truth;
}

std::string as_it_is(std::string_view answer) {
  return std::string(answer);
}

std::optional<std::string> gsm8k_answer(std::string_view response) {
  const size_t mark = response.rfind(kAnswerMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const auto rest = response.substr(mark + kAnswerMark.size());
  return leading_number(rest.substr(0, rest.find('\n')));
}

std::optional<std::string> gsm8k_truth(std::string_view truth) {
  return truth.find(kAnswerMark) != std::string_view::npos ? gsm8k_answer(truth)
                                                           : leading_number(trimmed(truth));
}

std::optional<std::string> flexible_answer(std::string_view response) {
  const auto number = answers::last_number(response);
  return number ? leading_number(*number) : std::nullopt;
}

std::optional<std::string> text_answer(std::string_view text) {
  auto answer = with_single_spaces(text);
  if (answer.empty()) return std::nullopt;
  return answer;
}

std::optional<std::string> arithmetic_answer(std::string_view response) {
  const size_t mark = response.find_last_of("=;:");
  if (mark == std::string_view::npos) return std::nullopt;
  return whole_number(trimmed(response.substr(mark + 1)));
}

std::optional<std::string> arithmetic_truth(std::string_view truth) {
  return whole_number(trimmed(truth.substr(truth.find_last_of("=;:") + 1)));  // npos + 1 is 0
}

std::optional<std::string> math_anywhere(std::string_view response) {
  return answers::find_answer(response, answers::AnswerPlace::anywhere);
}

std::optional<std::string> math_boxed(std::string_view response) {
  return answers::find_answer(response, answers::AnswerPlace::boxed);
}

// A worked solution's answer is in its box.
std::optional<std::string> math_truth(std::string_view truth) {
  if (auto boxed = answers::last_boxed(truth)) return boxed;
  return text_answer(truth);
}

bool same_math(const std::string& answer, const std::string& truth) {
  return answers::same_answer(answer, truth);
}

std::optional<std::string> announced(std::string_view response) {
  constexpr std::string_view kMark = "answer";
  for (size_t at = response.size(); at-- > 0;) {
    if (response.size() - at < kMark.size() || lower(response[at]) != 'a') continue;
    if (!std::ranges::equal(response.substr(at, kMark.size()), kMark, {}, lower)) continue;
    auto rest = response.substr(at + kMark.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t*"), rest.size()));
    if (!rest.starts_with(':')) continue;
    rest = trimmed(rest.substr(1, rest.find('\n') - 1));
    while (rest.starts_with('*')) rest = trimmed(rest.substr(1));
    while (!rest.empty() && (rest.back() == '*' || rest.back() == '.'))
      rest = trimmed(rest.substr(0, rest.size() - 1));
    if (rest.empty()) return std::nullopt;
    if (auto boxed = answers::last_boxed(rest)) return boxed;
    return std::string(rest);
  }
  return std::nullopt;
}

// Words without case, punctuation and articles.
std::string bare_words(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const bool punctuation =
        (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    if (!punctuation) plain.push_back(kSpace.find(c) == std::string_view::npos ? lower(c) : ' ');
  }
  std::string result;
  for (size_t begin = plain.find_first_not_of(' '); begin != std::string::npos;) {
    const size_t end = std::min(plain.find(' ', begin), plain.size());
    const std::string word = plain.substr(begin, end - begin);
    if (word != "a" && word != "an" && word != "the") result += (result.empty() ? "" : " ") + word;
    begin = plain.find_first_not_of(' ', end);
  }
  return result;
}

std::optional<std::string> tagged(std::string_view response) {
  const size_t end = response.rfind("</answer>");
  if (end == std::string_view::npos) return std::nullopt;
  const size_t begin = response.rfind("<answer>", end);
  if (begin == std::string_view::npos) return std::nullopt;
  return bare_words(response.substr(begin + 8, end - begin - 8));
}

void add_targets(const nlohmann::json& json, std::vector<std::string>& targets) {
  if (json.is_object() && json.contains("target")) return add_targets(json["target"], targets);
  if (json.is_string()) targets.push_back(json.get<std::string>());
  if (json.is_number()) targets.push_back(json.dump());
  if (json.is_array())
    for (const auto& one : json) add_targets(one, targets);
}

std::vector<std::string> targets_of(const std::string& truth) {
  std::vector<std::string> targets;
  const auto json = nlohmann::json::parse(truth, nullptr, false);
  if (!json.is_discarded()) add_targets(json, targets);
  return targets.empty() ? std::vector{truth} : targets;
}

bool is_target(const std::string& answer, const std::string& truth) {
  return std::ranges::any_of(targets_of(truth),
                             [&](const std::string& target) { return bare_words(target) == answer; });
}

constexpr AnswerRule kRules[] = {
    {"gsm8k", "a number, alone or after the last ####", gsm8k_answer, gsm8k_truth, equal, as_it_is},
    {"gsm8k_flexible", "a number, alone or after the last ####", flexible_answer, gsm8k_truth, equal,
     as_it_is},
    {"math", "an answer that is not blank", math_anywhere, math_truth, same_math, answers::normal_answer},
    {"math_boxed", "an answer that is not blank", math_boxed, math_truth, same_math, answers::normal_answer},
    {"math_answer", "an answer that is not blank", announced, math_truth, same_math, answers::normal_answer},
    {"exact_match", "a text that is not blank", text_answer, text_answer, equal, as_it_is},
    {"regex", "a text that is not blank", nullptr, text_answer, equal, as_it_is},
    {"qa", "a text, a list of texts, or {\"target\": ...} of those", tagged, text_answer, is_target,
     as_it_is},
    {"arithmetic", "a whole number", arithmetic_answer, arithmetic_truth, equal, as_it_is},
};

}  // namespace

const AnswerRule* find_answer_rule(std::string_view name) {
  const auto* found =
      std::ranges::find(kRules, name, [](const AnswerRule& rule) { return std::string_view(rule.name); });
  return found == std::end(kRules) ? nullptr : found;
}

}  // namespace trireme::rewards
