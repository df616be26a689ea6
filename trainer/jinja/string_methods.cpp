// The methods of Python's str that templates call.
#include <algorithm>
#include <optional>

#include "trainer/jinja/arguments.h"
#include "trainer/jinja/attributes.h"
#include "trainer/jinja/operators.h"
#include "trainer/jinja/python_text.h"
#include "trainer/jinja/text_format.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

constexpr size_t kNone = std::string_view::npos;

struct Call {
  std::string_view text;
  bool safe;
  std::string_view name;
  const Arguments& arguments;
  Workspace& work;

  std::vector<Value> bound(std::initializer_list<std::string_view> parameters, size_t required = 0) const {
    return bind(name, arguments, parameters, required);
  }
  Value string(std::string_view s) const { return work.string(s, safe); }
  // What is put into text marked safe is escaped.
  std::string joined(const Value& value) const {
    const auto part = need_text(name, value);
    return safe && !value.safe() ? escape_html(part) : std::string(part);
  }
  Value strings(const std::vector<std::string_view>& parts) const {
    const auto items = work.slots(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) items[i] = Value::string(parts[i], safe);  // within the text
    return Value::list(work.make(List{items.data(), items.size()}));
  }
};

using Method = Value (*)(const Call&);

Value upper(const Call& c) {
  return c.bound({}), c.string(to_upper(c.text));
}
Value lower(const Call& c) {
  return c.bound({}), c.string(to_lower(c.text));
}
Value title(const Call& c) {
  return c.bound({}), c.string(to_title(c.text));
}
Value capitalize_text(const Call& c) {
  return c.bound({}), c.string(capitalize(c.text));
}

std::optional<std::string_view> chars_of(const Call& c) {
  const Value chars = c.bound({"chars"})[0];
  if (chars.is(Kind::missing) || chars.is(Kind::none)) return {};
  if (need_text(c.name, chars).size() > 1000) reject("{}: more than 1000 bytes to strip", c.name);
  return chars.as_string();
}
Value strip_both(const Call& c) {
  return Value::string(strip(c.text, chars_of(c)), c.safe);
}
Value strip_begin(const Call& c) {
  return Value::string(strip_left(c.text, chars_of(c)), c.safe);
}
Value strip_end(const Call& c) {
  return Value::string(strip_right(c.text, chars_of(c)), c.safe);
}

// At runs of white space; with a limit the rest stays whole at the end, or at the beginning if from the
// right.
std::vector<std::string_view> split_words(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> words;
  for (auto rest = strip_left(text); !rest.empty();) {
    if (!from_right && limit >= 0 && static_cast<int64_t>(words.size()) == limit) {
      words.push_back(rest);
      break;
    }
    size_t end = 0;
    while (end < rest.size() && !is_space(decode(rest, end).value)) end += decode(rest, end).bytes;
    words.push_back(rest.substr(0, end));
    rest = strip_left(rest.substr(end));
    Workspace::check_items(words.size());
  }
  const auto count = static_cast<int64_t>(words.size());
  if (!from_right || limit < 0 || count <= limit) return words;
  const auto first_kept = words.begin() + static_cast<std::ptrdiff_t>(count - limit);
  const auto& last_of_rest = *(first_kept - 1);
  const size_t rest_end = static_cast<size_t>(last_of_rest.data() + last_of_rest.size() - text.data());
  std::vector<std::string_view> out = {text.substr(0, rest_end)};
  out.insert(out.end(), first_kept, words.end());
  return out;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view mark, int64_t limit,
                                       bool from_right) {
  std::vector<std::string_view> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = from_right ? text.rfind(mark) : text.find(mark);
    if (at == kNone) break;
    parts.push_back(from_right ? text.substr(at + mark.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + mark.size());
    Workspace::check_items(parts.size());
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split_text(const Call& c, bool from_right) {
  const auto given = c.bound({"sep", "maxsplit"});
  const int64_t limit = given[1].is(Kind::missing) ? -1 : need_integer(c.name, given[1]);
  if (given[0].is(Kind::missing) || given[0].is(Kind::none)) {
    return c.strings(split_words(c.text, limit, from_right));
  }
  const auto mark = need_text(c.name, given[0]);
  if (mark.empty()) reject("{} at an empty text", c.name);
  return c.strings(split_at(c.text, mark, limit, from_right));
}
Value split(const Call& c) {
  return split_text(c, false);
}
Value rsplit(const Call& c) {
  return split_text(c, true);
}

Value splitlines(const Call& c) {
  const Value keep = c.bound({"keepends"})[0];
  Workspace::check_items(c.text.size());
  return c.strings(split_lines(c.text, truth(keep)));
}

Value affix(const Call& c, bool at_end) {
  const Value given = c.bound({"prefix"}, 1)[0];
  const auto matches = [&](const Value& value) {
    const auto part = need_text(c.name, value);
    if (part.size() > c.text.size()) return false;
    return c.text.substr(at_end ? c.text.size() - part.size() : 0, part.size()) == part;
  };
  if (!given.is(Kind::tuple)) return Value::boolean(matches(given));
  return Value::boolean(std::any_of(given.as_list().begin(), given.as_list().end(), matches));
}
Value startswith(const Call& c) {
  return affix(c, false);
}
Value endswith(const Call& c) {
  return affix(c, true);
}

Value remove_affix(const Call& c, bool at_end) {
  if (!truth(affix(c, at_end))) return Value::string(c.text, c.safe);
  const size_t bytes = need_text(c.name, c.arguments.positional[0]).size();
  return Value::string(at_end ? c.text.substr(0, c.text.size() - bytes) : c.text.substr(bytes), c.safe);
}
Value removeprefix(const Call& c) {
  return remove_affix(c, false);
}
Value removesuffix(const Call& c) {
  return remove_affix(c, true);
}

Value replace(const Call& c) {
  const auto given = c.bound({"old", "new", "count"}, 2);
  const int64_t count = given[2].is(Kind::missing) ? -1 : need_integer(c.name, given[2]);
  return c.string(replace_text(c.text, need_text(c.name, given[0]), c.joined(given[1]), count));
}

Value join(const Call& c) {
  const List items = iterate(c.bound({"iterable"}, 1)[0], c.work);
  std::string out;
  for (size_t i = 0; i < items.size; ++i) {
    if (i) out += c.text;
    out += c.joined(items.items[i]);
    if (out.size() > Workspace::kMaxOutputBytes) reject("join makes too long a text");
  }
  return c.string(out);
}

Value position(const Call& c, bool from_right, bool must) {
  const auto part = need_text(c.name, c.bound({"sub"}, 1)[0]);
  const size_t at = from_right ? c.text.rfind(part) : c.text.find(part);
  if (at == kNone && must) reject("{}: the text is not there", c.name);
  return Value::integer(at == kNone ? -1 : static_cast<int64_t>(count_code_points(c.text.substr(0, at))));
}
Value find_first(const Call& c) {
  return position(c, false, false);
}
Value find_last(const Call& c) {
  return position(c, true, false);
}
Value index_first(const Call& c) {
  return position(c, false, true);
}
Value index_last(const Call& c) {
  return position(c, true, true);
}

Value count(const Call& c) {
  const auto part = need_text(c.name, c.bound({"sub"}, 1)[0]);
  if (part.empty()) return Value::integer(static_cast<int64_t>(count_code_points(c.text)) + 1);
  int64_t times = 0;
  for (size_t at = c.text.find(part); at != kNone; at = c.text.find(part, at + part.size())) ++times;
  return Value::integer(times);
}

Value cut(const Call& c, bool from_right) {
  const auto mark = need_text(c.name, c.bound({"sep"}, 1)[0]);
  if (mark.empty()) reject("{} at an empty text", c.name);
  const size_t at = from_right ? c.text.rfind(mark) : c.text.find(mark);
  std::string_view parts[3] = {c.text, "", ""};
  if (at == kNone) {
    if (from_right) std::swap(parts[0], parts[2]);
  } else {
    parts[0] = c.text.substr(0, at);
    parts[1] = mark;
    parts[2] = c.text.substr(at + mark.size());
  }
  const Value values[] = {Value::string(parts[0], c.safe), Value::string(parts[1], c.safe),
                          Value::string(parts[2], c.safe)};
  return c.work.tuple(values);
}
Value partition(const Call& c) {
  return cut(c, false);
}
Value rpartition(const Call& c) {
  return cut(c, true);
}

Value all_of(const Call& c, bool (*is)(char)) {
  c.bound({});
  for (char letter : c.text)
    if (static_cast<unsigned char>(letter) >= 0x80)
      reject("{} of other than ASCII text is not supported", c.name);
  return Value::boolean(!c.text.empty() && std::all_of(c.text.begin(), c.text.end(), is));
}
bool digit(char c) {
  return c >= '0' && c <= '9';
}
bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
Value isdigit(const Call& c) {
  return all_of(c, digit);
}
Value isalpha(const Call& c) {
  return all_of(c, letter);
}
Value isalnum(const Call& c) {
  return all_of(c, [](char one) { return digit(one) || letter(one); });
}
Value isspace(const Call& c) {
  return c.bound({}), Value::boolean(!c.text.empty() && strip(c.text).empty());
}
Value isupper(const Call& c) {
  return c.bound({}), Value::boolean(is_upper(c.text));
}
Value islower(const Call& c) {
  return c.bound({}), Value::boolean(is_lower(c.text));
}

Value format(const Call& c) {
  return c.string(format_braces(c.text, c.arguments, c.work));
}

constexpr std::pair<std::string_view, Method> kMethods[] = {{"upper", upper},
                                                            {"lower", lower},
                                                            {"title", title},
                                                            {"strip", strip_both},
                                                            {"lstrip", strip_begin},
                                                            {"rstrip", strip_end},
                                                            {"split", split},
                                                            {"rsplit", rsplit},
                                                            {"splitlines", splitlines},
                                                            {"startswith", startswith},
                                                            {"endswith", endswith},
                                                            {"capitalize", capitalize_text},
                                                            {"replace", replace},
                                                            {"join", join},
                                                            {"removeprefix", removeprefix},
                                                            {"find", find_first},
                                                            {"rfind", find_last},
                                                            {"removesuffix", removesuffix},
                                                            {"index", index_first},
                                                            {"rindex", index_last},
                                                            {"count", count},
                                                            {"partition", partition},
                                                            {"rpartition", rpartition},
                                                            {"format", format},
                                                            {"isdigit", isdigit},
                                                            {"isalpha", isalpha},
                                                            {"isalnum", isalnum},
                                                            {"isspace", isspace},
                                                            {"isupper", isupper},
                                                            {"islower", islower}};

constexpr std::string_view kRefused[] = {
    "casefold",  "center",       "encode",    "expandtabs",  "format_map", "isascii",
    "isdecimal", "isidentifier", "isnumeric", "isprintable", "istitle",    "ljust",
    "maketrans", "rjust",        "swapcase",  "translate",   "zfill"};

}  // namespace

Support string_method_support(std::string_view name) {
  for (const auto& [known, method] : kMethods)
    if (known == name) return Support::yes;
  return std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused) ? Support::refused
                                                                                         : Support::none;
}

Value call_string_method(const Callable& method, const Arguments& arguments, Workspace& work) {
  const auto text = method.self.as_string();
  const bool safe = method.self.safe();
  if (safe && method.name == "format") reject("format of text marked safe is not supported");
  work.spend(1 + text.size() / 64);
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::string))
    work.spend_search(text.size(), arguments.positional[0].as_string().size());
  // Of all these methods Python takes names only for split's arguments, splitlines' and format's.
  if (!arguments.named.empty() && method.name != "split" && method.name != "rsplit" &&
      method.name != "splitlines" && method.name != "format")
    reject("{} takes no named arguments", method.name);
  for (const auto& [known, call] : kMethods)
    if (known == method.name) return call({text, safe, method.name, arguments, work});
  reject("text has no method '{}'", method.name);
}

std::string replace_text(std::string_view text, std::string_view old, std::string_view replacement,
                         int64_t count) {
  std::string out;
  const auto check = [&] {
    if (out.size() > Workspace::kMaxOutputBytes) reject("replace makes too long a text");
  };
  size_t begin = 0;
  if (old.empty()) {  // before each character and at the end
    for (size_t at = 0; count != 0 && at <= text.size(); --count) {
      out += replacement;
      check();
      if (at == text.size()) return out;
      const size_t bytes = decode(text, at).bytes;
      out += text.substr(at, bytes);
      begin = at += bytes;
    }
    return out + std::string(text.substr(begin));
  }
  for (; count != 0; --count) {
    const size_t at = text.find(old, begin);
    if (at == kNone) break;
    out += text.substr(begin, at - begin);
    out += replacement;
    check();
    begin = at + old.size();
  }
  return out + std::string(text.substr(begin));
}

}  // namespace trireme::jinja
