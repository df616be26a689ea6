#include "trainer/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "runtime/base/error.h"
#include "trainer/jinja/arguments.h"
#include "trainer/jinja/attributes.h"
#include "trainer/jinja/operators.h"
#include "trainer/jinja/python_text.h"
#include "trainer/jinja/sequence_filters.h"
#include "trainer/jinja/text_format.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

// What a filter of text works on: the text of anything, marked safe or not.
struct Text {
  Text(const FilterCall& call) : safe(call.value.safe()), view(view_text(call.value, storage, call.work)) {
    call.work.spend(1 + view.size() / 64);
  }
  bool safe;
  std::string storage;
  std::string_view view;
};

Value upper(const FilterCall& c) {
  return c.bound({}), c.work.string(to_upper(Text(c).view), c.value.safe());
}
Value lower(const FilterCall& c) {
  return c.bound({}), c.work.string(to_lower(Text(c).view), c.value.safe());
}
Value capitalize_text(const FilterCall& c) {
  return c.bound({}), c.work.string(capitalize(Text(c).view), c.value.safe());
}

// Words begin after white space, hyphens and opening brackets.
Value title(const FilterCall& c) {
  c.bound({});
  const Text text(c);
  const auto separates = [](char32_t p) {
    return is_space(p) || p == '-' || p == '(' || p == '{' || p == '[' || p == '<';
  };
  std::string out;
  for (size_t at = 0; at < text.view.size();) {
    const size_t begin = at;
    const bool separators = separates(decode(text.view, at).value);
    while (at < text.view.size() && separates(decode(text.view, at).value) == separators)
      at += decode(text.view, at).bytes;
    const auto word = text.view.substr(begin, at - begin);
    const size_t first = decode(word, 0).bytes;
    out += separators ? std::string(word) : to_upper(word.substr(0, first)) + to_lower(word.substr(first));
  }
  return c.work.string(out);
}

Value trim(const FilterCall& c) {
  const Value chars = c.bound({"chars"})[0];
  const Text text(c);
  if (chars.is(Kind::missing) || chars.is(Kind::none)) return c.work.string(strip(text.view), text.safe);
  if (need_text("trim", chars).size() > 1000) reject("trim: more than 1000 bytes to strip");
  return c.work.string(strip(text.view, chars.as_string()), text.safe);
}

Value replace(const FilterCall& c) {
  const auto given = c.bound({"old", "new", "count"}, 2);
  const Text text(c);
  std::string old, replacement;
  c.work.spend_search(text.view.size(), view_text(given[0], old, c.work).size());
  const int64_t count =
      given[2].is(Kind::missing) || given[2].is(Kind::none) ? -1 : need_integer("replace", given[2]);
  return c.work.string(replace_text(text.view, view_text(given[0], old, c.work),
                                    view_text(given[1], replacement, c.work), count));
}

Value string(const FilterCall& c) {
  c.bound({});
  return c.value.is(Kind::string) ? c.value : c.work.string(to_text(c.value, c.work));
}

Value safe(const FilterCall& c) {
  return c.bound({}), c.work.string(Text(c).view, true);
}

Value escape(const FilterCall& c) {
  c.bound({});
  return c.value.safe() ? c.value : c.work.string(escape_html(Text(c).view), true);
}

Value indent(const FilterCall& c) {
  const auto given = c.bound({"width", "first", "blank"});
  std::string margin(4, ' ');
  if (given[0].is(Kind::string)) {
    margin = given[0].as_string();
  } else if (!given[0].is(Kind::missing)) {
    const int64_t width = std::max<int64_t>(need_integer("indent", given[0]), 0);
    if (width > 1000) reject("indent of more than 1000");
    margin.assign(static_cast<size_t>(width), ' ');
  }
  const std::string text = std::string(need_text("indent", c.value)) + "\n";
  Workspace::check_items(text.size());
  const auto lines = split_lines(text, false);
  c.work.spend(lines.size() * (1 + margin.size() / 64));
  std::string out = truth(given[1]) ? margin : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i) out += '\n';
    if (i && (truth(given[2]) || !lines[i].empty())) out += margin;
    out += lines[i];
    if (out.size() > Workspace::kMaxOutputBytes) reject("indent makes too long a text");
  }
  return c.work.string(out, c.value.safe());
}

Value to_json_filter(const FilterCall& c) {
  const auto given = c.bound({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = truth(given[0]);
  style.sort_keys = truth(given[3]);
  if (!given[1].is(Kind::missing) && !given[1].is(Kind::none)) {
    style.pretty = true;
    style.between = ",";
    if (given[1].is(Kind::string)) {
      style.indent = given[1].as_string();
    } else {
      const int64_t width = std::max<int64_t>(need_integer("tojson's indent", given[1]), 0);
      if (width > 1000) reject("tojson with an indent of more than 1000");
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (!given[2].is(Kind::missing) && !given[2].is(Kind::none)) {
    const List pair = iterate(given[2], c.work);
    if (pair.size != 2) reject("tojson's separators must be two texts");
    style.between = need_text("tojson's separators", pair.items[0]);
    style.after_key = need_text("tojson's separators", pair.items[1]);
  }
  return c.work.string(to_json(c.value, style, c.work));
}

// Digits with single underscores between them lose them, as Python reads numbers.
std::optional<std::string> number_text(std::string_view text) {
  text = strip(text);
  if (text.substr(0, 1) == "+" && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || !digit(i - 1) || !digit(i + 1)) {
      return {};
    }
  }
  return out;
}

std::optional<double> read_real(std::string_view text) {
  const auto plain = number_text(text);
  if (!plain || plain->empty()) return {};
  double value = 0;
  const char* end = plain->data() + plain->size();
  const auto [stop, error] = std::from_chars(plain->data(), end, value);
  if (stop != end || error == std::errc::invalid_argument || plain->find('(') != std::string::npos) return {};
  if (error == std::errc::result_out_of_range) reject("the number {} is out of range", text);
  return value;
}

std::optional<int64_t> whole_part(double value) {
  if (!std::isfinite(value)) return {};
  if (std::abs(value) >= 9223372036854775808.0) reject("the integer {} does not fit 64 bits", value);
  return static_cast<int64_t>(value);
}

Value integer(const FilterCall& c) {
  const auto given = c.bound({"default", "base"});
  if (!given[1].is(Kind::missing) && !(given[1].is_whole() && given[1].as_integer() == 10))
    reject("int with a base other than 10 is not supported");
  if (c.value.is(Kind::undefined)) reject("{}", c.value.as_string());
  if (c.value.is_whole()) return Value::integer(c.value.as_integer());
  std::optional<double> real;
  if (c.value.is(Kind::real)) real = c.value.as_real();
  if (c.value.is(Kind::string)) {
    const auto plain = number_text(c.value.as_string());
    int64_t value = 0;
    if (plain && !plain->empty()) {
      const char* end = plain->data() + plain->size();
      const auto [stop, error] = std::from_chars(plain->data(), end, value);
      if (stop == end && error == std::errc::result_out_of_range)
        reject("the integer {} does not fit 64 bits", *plain);
      if (stop == end && error == std::errc()) return Value::integer(value);
    }
    real = read_real(c.value.as_string());
  }
  const auto whole = real ? whole_part(*real) : std::nullopt;
  if (whole) return Value::integer(*whole);
  return given[0].is(Kind::missing) ? Value::integer(0) : given[0];
}

Value real(const FilterCall& c) {
  const Value standard = c.bound({"default"})[0];
  if (c.value.is(Kind::undefined)) reject("{}", c.value.as_string());
  if (c.value.is_number()) return Value::real(c.value.as_real());
  if (c.value.is(Kind::string))
    if (const auto value = read_real(c.value.as_string())) return Value::real(*value);
  return standard.is(Kind::missing) ? Value::real(0) : standard;
}

Value format(const FilterCall& c) {
  const auto& arguments = c.arguments;
  if (!arguments.named.empty() && !arguments.positional.empty())
    reject("format takes values by place or by name, not both");
  if (c.value.safe()) reject("format of text marked safe is not supported");
  std::vector<Entry> named;
  for (const auto& [name, value] : arguments.named) named.push_back({Value::string(name), value});
  const Value values = named.empty() ? c.work.tuple(arguments.positional) : c.work.dict(named);
  return c.work.string(format_percent(Text(c).view, values, c.work));
}

Value absolute(const FilterCall& c) {
  c.bound({});
  if (c.value.is(Kind::real)) return Value::real(std::abs(c.value.as_real()));
  const int64_t value = need_integer("abs", c.value);
  return value < 0 ? negate(c.value) : Value::integer(value);
}

Value standard(const FilterCall& c) {
  const auto given = c.bound({"default_value", "boolean"});
  const bool absent = c.value.is(Kind::undefined) || (truth(given[1]) && !truth(c.value));
  if (!absent) return c.value;
  return given[0].is(Kind::missing) ? Value::string("") : given[0];
}

constexpr std::pair<std::string_view, Filter> kTextFilters[] = {
    {"upper", upper},      {"lower", lower},   {"capitalize", capitalize_text},
    {"title", title},      {"trim", trim},     {"replace", replace},
    {"string", string},    {"safe", safe},     {"escape", escape},
    {"e", escape},         {"indent", indent}, {"tojson", to_json_filter},
    {"int", integer},      {"float", real},    {"abs", absolute},
    {"default", standard}, {"d", standard},    {"format", format}};

constexpr std::string_view kRefused[] = {
    "attr",      "batch",  "center",    "filesizeformat", "forceescape", "groupby",
    "pprint",    "random", "round",     "slice",          "striptags",   "truncate",
    "urlencode", "urlize", "wordcount", "wordwrap",       "xmlattr"};

Filter find_filter(std::string_view name) {
  for (const auto& [known, filter] : kTextFilters)
    if (known == name) return filter;
  return find_sequence_filter(name);
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

std::string unknown_filter(std::string_view name) {
  if (std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused))
    return fmt::format("the filter '{}' is outside the part of Jinja that is supported", name);
  std::vector<std::string> names = sequence_filter_names();
  for (const auto& [known, filter] : kTextFilters) names.emplace_back(known);
  const std::string near = nearest(std::string(name), names);
  return fmt::format("there is no filter '{}'{}", name, near.empty() ? "" : "; did you mean " + near + "?");
}

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Workspace& work) {
  const Filter filter = find_filter(name);
  if (!filter) reject("{}", unknown_filter(name));
  return filter({value, arguments, work, name});
}

}  // namespace trireme::jinja
