#include "trainer/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "trainer/jinja/operators.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

constexpr int kMaxDepth = 200;

void check_size(const std::string& out) {
  if (out.size() > Workspace::kMaxOutputBytes)
    reject("the text grows beyond {} MB", Workspace::kMaxOutputBytes >> 20);
}

void append_string_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    const char32_t p = point.value;
    if (p == static_cast<char32_t>(quote) || p == '\\') {
      out += '\\';
      out += static_cast<char>(p);
    } else if (p == '\n') {
      out += "\\n";
    } else if (p == '\r') {
      out += "\\r";
    } else if (p == '\t') {
      out += "\\t";
    } else if (is_printable(p)) {
      out += text.substr(at, point.bytes);
    } else if (p < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(p));
    } else if (p < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(p));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(p));
    }
    at += point.bytes;
  }
  out += quote;
}

void append_nested(std::string& out, const Value& value, Workspace& work, int depth);

void append_items(std::string& out, const List& list, Workspace& work, int depth) {
  for (size_t i = 0; i < list.size; ++i) {
    if (i) out += ", ";
    append_nested(out, list.items[i], work, depth);
  }
}

void append_entries(std::string& out, std::span<const Entry> entries, Workspace& work, int depth) {
  out += '{';
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i) out += ", ";
    append_nested(out, entries[i].key, work, depth);
    out += ": ";
    append_nested(out, entries[i].value, work, depth);
  }
  out += '}';
}

void append_nested(std::string& out, const Value& value, Workspace& work, int depth) {
  if (depth > kMaxDepth) reject("a value is nested more than {} deep", kMaxDepth);
  work.spend(1);
  check_size(out);
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      out += "Undefined";
      return;
    case Kind::none:
      out += "None";
      return;
    case Kind::boolean:
      out += value.as_integer() ? "True" : "False";
      return;
    case Kind::integer:
      out += std::to_string(value.as_integer());
      return;
    case Kind::real:
      out += real_text(value.as_real());
      return;
    case Kind::string:
      if (value.safe()) {
        out += "Markup(";
        append_string_repr(out, value.as_string());
        out += ')';
      } else {
        append_string_repr(out, value.as_string());
      }
      return;
    case Kind::list:
      out += '[';
      append_items(out, value.as_list(), work, depth + 1);
      out += ']';
      return;
    case Kind::tuple:
      out += '(';
      append_items(out, value.as_list(), work, depth + 1);
      out += value.as_list().size == 1 ? ",)" : ")";
      return;
    case Kind::dict:
      append_entries(out, {value.as_dict().entries, value.as_dict().size}, work, depth + 1);
      return;
    case Kind::range: {
      const Range& range = value.as_range();
      out += fmt::format("range({}, {}", range.start, range.stop);
      out += range.step == 1 ? ")" : fmt::format(", {})", range.step);
      return;
    }
    case Kind::view:
      out += value.as_view().name;
      out += "([";
      append_items(out, value.as_view().items, work, depth + 1);
      out += "])";
      return;
    case Kind::space:
      out += "<Namespace ";
      append_entries(out, value.as_space().entries, work, depth + 1);
      out += '>';
      return;
    case Kind::loop:
      out += fmt::format("<LoopContext {}/{}>", value.as_loop().index0 + 1, value.as_loop().length());
      return;
    case Kind::callable:
      if (value.as_callable().what == Callable::What::macro) {
        const auto name = value.as_callable().name;
        out += name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name);
        return;
      }
      break;
    case Kind::iterator:
      break;
  }
  reject("a {} has no text; turn what it yields into a list first", type_name(value));
}

void append_json_string(std::string& out, std::string_view text, bool ascii) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    const auto p = static_cast<uint32_t>(point.value);
    static constexpr std::string_view kShort = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    if (p < 0x80 && kShort.find(static_cast<char>(p)) != std::string_view::npos) {
      out += '\\';
      out += kLetters[kShort.find(static_cast<char>(p))];
    } else if (p < 0x20 || (ascii && p >= 0x7F && p < 0x10000)) {
      out += fmt::format("\\u{:04x}", p);
    } else if (ascii && p >= 0x10000) {
      out +=
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((p - 0x10000) >> 10), 0xDC00 + ((p - 0x10000) & 0x3FF));
    } else {
      out += text.substr(at, point.bytes);
    }
    at += point.bytes;
  }
  out += '"';
}

std::string json_real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return real_text(value);
}

struct JsonWriter {
  const JsonStyle& style;
  Workspace& work;
  std::string out;

  void new_line(int depth) {
    out += '\n';
    for (int i = 0; i < depth; ++i) {
      work.spend(1 + style.indent.size() / 16);
      out += style.indent;
    }
  }

  void key(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return append_json_string(out, key.as_string(), style.ascii);
      case Kind::none:
        return append_json_string(out, "null", style.ascii);
      case Kind::boolean:
        return append_json_string(out, key.as_integer() ? "true" : "false", style.ascii);
      case Kind::integer:
        return append_json_string(out, std::to_string(key.as_integer()), style.ascii);
      case Kind::real:
        return append_json_string(out, json_real(key.as_real()), style.ascii);
      default:
        reject("a key of type {} cannot be written as JSON", type_name(key));
    }
  }

  void list(const List& list, int depth) {
    out += '[';
    for (size_t i = 0; i < list.size; ++i) {
      if (i) out += style.between;
      if (style.pretty) new_line(depth + 1);
      value(list.items[i], depth + 1);
    }
    if (style.pretty && list.size) new_line(depth);
    out += ']';
  }

  void dict(const Dict& dict, int depth) {
    std::vector<Entry> sorted(dict.begin(), dict.end());
    if (style.sort_keys) {
      work.spend(sorted.size() * 8);
      std::stable_sort(sorted.begin(), sorted.end(),
                       [&](const Entry& a, const Entry& b) { return less(a.key, b.key, work); });
    }
    out += '{';
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (i) out += style.between;
      if (style.pretty) new_line(depth + 1);
      key(sorted[i].key);
      out += style.after_key;
      value(sorted[i].value, depth + 1);
    }
    if (style.pretty && !sorted.empty()) new_line(depth);
    out += '}';
  }

  void value(const Value& value, int depth) {
    if (depth > kMaxDepth) reject("a value is nested more than {} deep", kMaxDepth);
    work.spend(1);
    check_size(out);
    switch (value.kind()) {
      case Kind::none:
        out += "null";
        return;
      case Kind::boolean:
        out += value.as_integer() ? "true" : "false";
        return;
      case Kind::integer:
        out += std::to_string(value.as_integer());
        return;
      case Kind::real:
        out += json_real(value.as_real());
        return;
      case Kind::string:
        return append_json_string(out, value.as_string(), style.ascii);
      case Kind::list:
      case Kind::tuple:
        return list(value.as_list(), depth);
      case Kind::dict:
        return dict(value.as_dict(), depth);
      case Kind::undefined:
        reject("{}, so it cannot be written as JSON", value.as_string());
      default:
        reject("a {} cannot be written as JSON", type_name(value));
    }
  }
};

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Shortest digits as d.ddde[+-]xx, then laid out as Python does: plain from 1e-4 to below 1e16.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t sign = text[e + 1] == '+' ? 2 : 1;
  std::from_chars(text.data() + e + sign, end, exponent);
  std::string digits;
  std::string out = value < 0 || (value == 0 && std::signbit(value)) ? "-" : "";
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

void append_text(std::string& out, const Value& value, Workspace& work) {
  if (value.is(Kind::string)) {
    work.spend(value.as_string().size() / 256);
    out += value.as_string();
  } else if (!value.is(Kind::undefined) && !value.is(Kind::missing)) {
    append_nested(out, value, work, 0);
  }
  check_size(out);
}

void append_repr(std::string& out, const Value& value, Workspace& work) {
  append_nested(out, value, work, 0);
}

std::string to_text(const Value& value, Workspace& work) {
  std::string out;
  append_text(out, value, work);
  return out;
}

std::string_view view_text(const Value& value, std::string& storage, Workspace& work) {
  if (value.is(Kind::string)) return value.as_string();
  storage = to_text(value, work);
  return storage;
}

std::string to_json(const Value& value, const JsonStyle& style, Workspace& work) {
  JsonWriter writer{style, work, {}};
  writer.value(value, 0);
  return std::move(writer.out);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace trireme::jinja
