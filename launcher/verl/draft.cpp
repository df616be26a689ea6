#include "launcher/verl/draft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "trainer/config/schema.h"
#include "trainer/config/written.h"

namespace trireme::verl {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return text;
}

/// The value as TOML for that key; nothing if it is not of the key's type.
std::optional<std::string> toml_of(const Value& value, const config::Key& key) {
  const std::string type = config::type_name(key);
  if (type == "list of strings") {
    std::vector<std::string> items;
    for (const std::string& item :
         value.kind == Value::Kind::list ? value.items : std::vector<std::string>{value.text})
      items.push_back(config::quoted(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (value.kind != Value::Kind::scalar) return std::nullopt;
  if (config::is_text(key)) return config::quoted(value.text);
  if (type == "true or false") {
    const auto flag = as_flag(value.text);
    return flag ? std::optional<std::string>(*flag ? "true" : "false") : std::nullopt;
  }
  if (type == "integer") {
    const auto number = as_whole(value.text);
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  }
  const auto number = as_number(value.text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const std::string text = fmt::format("{}", *number);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// Beyond every range of ours, and small enough to be multiplied.
constexpr int64_t kLargest = int64_t{1} << 31;

// A mistake's line is "WHERE: what".
std::string without_place(const std::string& line, const std::string& place) {
  return line.rfind(place + ": ", 0) == 0 ? line.substr(place.size() + 2) : line;
}

}  // namespace

std::optional<double> as_number(const std::string& text) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text[0]))) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end == '\0' ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> as_whole(const std::string& text) {
  const auto number = as_number(text);
  if (!number || std::floor(*number) != *number || std::abs(*number) > 9e15) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::optional<bool> as_flag(const std::string& text) {
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

bool same_value(const std::string& a, const std::string& b) {
  const auto x = as_number(a), y = as_number(b);
  return x && y ? *x == *y : lower(a) == lower(b);
}

std::string shown(const Setting& setting) {
  return fmt::format("{}={}", setting.key, setting.value.shown());
}

Draft::Draft(const Settings& settings, const Environment& environment)
    : settings_(settings), home_(environment("HOME").value_or("")) {}

const Setting* Draft::given(const std::string& key) const {
  const Setting* setting = settings_.find(key);
  return setting && !setting->value.is_null() && setting->missing.empty() ? setting : nullptr;
}

std::string Draft::text(const std::string& key, const std::string& verl_default) const {
  const Setting* setting = given(key);
  return setting ? setting->value.text : verl_default;
}

int64_t Draft::whole(const std::string& key, int64_t verl_default) const {
  const Setting* setting = given(key);
  const int64_t number = setting ? as_whole(setting->value.text).value_or(verl_default) : verl_default;
  return std::clamp(number, -kLargest, kLargest);
}

bool Draft::flag(const std::string& key, bool verl_default) const {
  const Setting* setting = given(key);
  return setting ? as_flag(setting->value.text).value_or(verl_default) : verl_default;
}

std::string Draft::set(const std::string& to, const Value& value, const std::string& from) {
  const config::Key* key = config::find_key(to);
  if (!key) return fmt::format("there is no {} here", to);
  Value expanded = value;
  for (std::string* text : {&expanded.text})
    if (text->rfind("~/", 0) == 0) *text = home_ + text->substr(1);
  for (std::string& item : expanded.items)
    if (item.rfind("~/", 0) == 0) item = home_ + item.substr(1);
  const auto toml = toml_of(expanded, *key);
  if (!toml)
    return fmt::format(
        "{} must be {} {}, found '{}'", to,
        std::string("aeiou").find(config::type_name(*key)[0]) == std::string::npos ? "a" : "an",
        config::type_name(*key), value.shown());
  const std::string written = fmt::format("{}={}", to, *toml);
  const config::Written read = config::read_toml("", "", {written});
  if (!read.mistakes.empty()) return without_place(read.mistakes.lines()[0], "command line: " + written);
  const auto [line, fresh] = lines_.insert({to, {to, *toml, from}});
  if (!fresh && line->second.value != *toml)
    return fmt::format("{} = {} by {}, which goes before", to, line->second.value,
                       line->second.from.empty() ? "verl's default" : line->second.from);
  return "";
}

void Draft::decide(const std::string& key, Fate fate, std::string text) {
  const Setting* setting = settings_.find(key);
  if (!setting || decided(key)) return;
  entries_[key] = {key, setting->value.shown(), setting->where, fate, std::move(text)};
}
void Draft::mapped(const std::string& key, const std::string& text) {
  decide(key, Fate::mapped, text);
}
void Draft::needless(const std::string& key, const std::string& why) {
  decide(key, Fate::needless, why);
}
void Draft::unsupported(const std::string& key, const std::string& what_to_do) {
  decide(key, Fate::unsupported, what_to_do);
}

void Draft::map(const std::string& key, const std::string& to, const Value& value, const std::string& text) {
  const Setting* setting = given(key);
  if (!setting || decided(key)) return;
  const std::string wrong = set(to, value, shown(*setting));
  if (!wrong.empty()) return unsupported(key, wrong);
  mapped(key, fmt::format("{} = {}{}{}", to, lines_.at(to).value, text.empty() ? "" : "; ", text));
}

}  // namespace trireme::verl
