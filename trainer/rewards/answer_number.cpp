#include "trainer/rewards/answer_number.h"

#include <algorithm>
#include <array>

namespace trireme::rewards {
namespace {

constexpr std::string_view kMinusSign = "\u2212";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool skip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Skips spaces, currency and emphasis.
void skip_ornament(std::string_view& text) {
  constexpr std::array<std::string_view, 15> ornaments = {" ",
                                                          "\t",
                                                          "\r",
                                                          "\u00a0",
                                                          "*",
                                                          "_",
                                                          "`",
                                                          "\\",
                                                          "$",
                                                          "\u20ac" /*euro*/,
                                                          "\u00a3" /*pound*/,
                                                          "\u00a5" /*yen*/,
                                                          "\u20b9" /*rupee*/,
                                                          "=",
                                                          "~"};
  constexpr std::array<std::string_view, 5> codes = {"USD", "US$", "EUR", "GBP", "Rs."};
  const auto skips = [&](std::string_view prefix) { return skip(text, prefix); };
  while (std::ranges::any_of(ornaments, skips) || std::ranges::any_of(codes, skips)) {
  }
}

/// Takes the minus or plus in front; true for minus.
bool take_sign(std::string_view& text, bool& found) {
  if (skip(text, "-") || skip(text, kMinusSign)) return found = true;
  found = skip(text, "+");
  return false;
}

/// Digits with commas between groups: 1,234,567 or 12,34,567. Takes only the digits before a comma that
/// begins no group. False if the groups make no sense (1,23).
bool take_grouped_digits(std::string_view& text, std::string& digits) {
  size_t group = 0;  // digits since the last comma
  bool has_comma = false, sound = true;
  while (!text.empty()) {
    if (is_digit(text[0])) {
      digits.push_back(text[0]);
      ++group;
    } else if (text[0] == ',' && text.size() > 1 && is_digit(text[1]) && group > 0) {
      sound = sound && group <= 3 && (!has_comma || group >= 2);
      has_comma = true;
      group = 0;
    } else {
      break;
    }
    text.remove_prefix(1);
  }
  return sound && (!has_comma || group == 3);
}

/// What may not follow a number without making it another one.
bool continues(std::string_view rest) {
  // 18e5, 18E-5; but "18 eggs", "18em".
  if (!rest.empty() && (rest[0] == 'e' || rest[0] == 'E')) {
    const auto exponent = rest.substr(rest.size() > 1 && (rest[1] == '-' || rest[1] == '+') ? 2 : 1);
    if (!exponent.empty() && is_digit(exponent[0])) return true;
  }
  // 0x1f, 2x3: a letter between digits.
  if (rest.size() > 1 && is_letter(rest[0]) && is_digit(rest[1])) return true;
  // 1.2.3 and 1.,5
  if (rest.size() > 1 && (rest[0] == '.' || rest[0] == ',') && (is_digit(rest[1]) || rest[1] == ','))
    return true;
  // 3/4, 3 / 4, 10-12, 2 + 3 = 5, 3:30, 50%-60%, 5 3, 18, 19
  constexpr std::array<std::string_view, 14> joints = {"/", "-", "+", "*", "^",      "=",      ":",
                                                       ",", "x", "%", "$", "\u2212", "\u2013", "\u00d7"};
  constexpr std::array<std::string_view, 4> spaces = {" ", "\t", "\u00a0", "\u202f"};
  const auto skips = [&](std::string_view prefix) { return skip(rest, prefix); };
  while (std::ranges::any_of(spaces, skips) || std::ranges::any_of(joints, skips)) {
  }
  return !rest.empty() && is_digit(rest[0]);
}

std::string canonical(bool negative, std::string_view whole, std::string_view fraction) {
  whole.remove_prefix(std::min(whole.find_first_not_of('0'), whole.size()));
  const size_t last = fraction.find_last_not_of('0');
  fraction = fraction.substr(0, last == std::string_view::npos ? 0 : last + 1);
  std::string number(whole.empty() ? "0" : whole);
  if (!fraction.empty()) number.append(".").append(fraction);
  return negative && number != "0" ? "-" + number : number;
}

}  // namespace

std::optional<std::string> leading_number(std::string_view line) {
  bool has_sign = false;
  skip_ornament(line);
  bool negative = take_sign(line, has_sign);
  if (has_sign) {  // "-$5", but not "- 5"
    while (skip(line, "\\") || skip(line, "$") || skip(line, "\u20ac") || skip(line, "\u00a3")) {
    }
  }
  std::string whole, fraction;
  if (!take_grouped_digits(line, whole)) return std::nullopt;
  if (line.size() > 1 && line[0] == '.' && is_digit(line[1])) {
    line.remove_prefix(1);
    const auto end = std::ranges::find_if_not(line, is_digit);
    fraction.assign(line.begin(), end);
    line.remove_prefix(fraction.size());
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  if (continues(line)) return std::nullopt;
  return canonical(negative, whole, fraction);
}

std::optional<std::string> whole_number(std::string_view text) {
  const bool negative = skip(text, "-");
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  return canonical(negative, text, {});
}

}  // namespace trireme::rewards
