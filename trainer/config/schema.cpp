#include "trainer/config/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <type_traits>
#include <unordered_map>

#include "runtime/base/error.h"

namespace trireme::config {
namespace {

template <typename Visitor>
auto visit_value(const Key& key, const RunConfig& config, Visitor&& visitor) {
  // The accessors serve reading and writing; here nothing is written.
  auto& writable = const_cast<RunConfig&>(config);
  return std::visit([&](auto field) { return visitor(std::as_const(field(writable))); }, key.field);
}

// The shortest text that reads back as the same number, and as a number with a fraction.
std::string number_text(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (const size_t e = text.find('e'); e != std::string::npos) {
    // 1e-06 -> 1e-6
    size_t digits = e + 1;
    if (text[digits] == '-' || text[digits] == '+') ++digits;
    while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
    return text;
  }
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

// Bounds read best without ".0".
std::string bound_text(double value) {
  return fmt::format("{}", value);
}

}  // namespace

std::string Key::table() const {
  return name.substr(0, name.rfind('.'));
}
std::string Key::leaf() const {
  return name.substr(name.rfind('.') + 1);
}

const Key* find_key(const std::string& name) {
  static const auto by_name = [] {
    std::unordered_map<std::string, const Key*> map;
    for (const Key& key : keys()) map.emplace(key.name, &key);
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

const Table* find_table(const std::string& name) {
  for (const Table& table : tables())
    if (table.name == name) return &table;
  return nullptr;
}

std::string type_name(const Key& key) {
  static constexpr const char* kNames[] = {"true or false", "integer", "integer",
                                           "number",        "string",  "list of strings"};
  static_assert(std::size(kNames) == std::variant_size_v<Field>);
  return kNames[key.field.index()];
}

bool is_text(const Key& key) {
  return std::holds_alternative<std::string& (*)(RunConfig&)>(key.field);
}

std::string range_text(const Key& key) {
  const Rule& rule = key.rule;
  if (!rule.choices.empty()) return fmt::format("one of {}", fmt::join(rule.choices, ", "));
  std::string text;
  if (rule.min && rule.max && !rule.above_min && !rule.below_max) {
    text = fmt::format("from {} to {}", bound_text(*rule.min), bound_text(*rule.max));
  } else {
    if (rule.min) text = fmt::format("{} {}", rule.above_min ? "above" : "at least", bound_text(*rule.min));
    if (rule.max)
      text += fmt::format("{}{} {}", text.empty() ? "" : " and ", rule.below_max ? "below" : "at most",
                          bound_text(*rule.max));
  }
  if (rule.or_value) text += fmt::format("{}{}", text.empty() ? "" : ", or ", *rule.or_value);
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
        else
          out += c;
    }
  }
  return out + '"';
}

std::string value_text(const Key& key, const RunConfig& config) {
  return visit_value(key, config, [](const auto& value) -> std::string {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, double>) {
      return number_text(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return quoted(value);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      std::vector<std::string> items;
      for (const std::string& item : value) items.push_back(quoted(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    } else {
      return fmt::format("{}", value);
    }
  });
}

std::string default_text(const Key& key) {
  static const RunConfig defaults;
  return value_text(key, defaults);
}

std::string rule_violation(const Key& key, const RunConfig& config) {
  const Rule& rule = key.rule;
  return visit_value(key, config, [&](const auto& value) -> std::string {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::string>) {
      if (rule.choices.empty()) return "";
      for (const std::string& choice : rule.choices)
        if (value == choice) return "";
      std::string text = fmt::format("must be {}, found {}", range_text(key), quoted(value));
      if (const std::string near = nearest(value, rule.choices); !near.empty())
        text += fmt::format("; did you mean \"{}\"?", near);
      return text;
    } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const auto number = static_cast<double>(value);
      if (!std::isfinite(number))
        return fmt::format("must be a finite number, found {}", value_text(key, config));
      if (rule.or_value && number == static_cast<double>(*rule.or_value)) return "";
      const bool low = rule.min && (rule.above_min ? number <= *rule.min : number < *rule.min);
      const bool high = rule.max && (rule.below_max ? number >= *rule.max : number > *rule.max);
      if (low || high) return fmt::format("must be {}, found {}", range_text(key), value_text(key, config));
    }
    return "";
  });
}

bool operator==(const RunConfig& a, const RunConfig& b) {
  for (const Key& key : keys()) {
    const bool same = std::visit(
        [&](auto field) { return field(const_cast<RunConfig&>(a)) == field(const_cast<RunConfig&>(b)); },
        key.field);
    if (!same) return false;
  }
  return true;
}

}  // namespace trireme::config
