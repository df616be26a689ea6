#include "trainer/answers/structure.h"

#include <algorithm>
#include <utility>

namespace trireme::answers {
namespace {

using Kind = Structure::Kind;
using Tokens = std::span<const Token>;

constexpr size_t kMaxParts = 200;
constexpr int kMaxDepth = 20;

bool opens(const Token& t) {
  return t.is("(") || t.is("[") || t.is("{") || t.is("\\{") ||
         (t.kind == TokenKind::mark && t.text.starts_with("begin"));
}
bool closes(const Token& t) {
  return t.is(")") || t.is("]") || t.is("}") || t.is("\\}") ||
         (t.kind == TokenKind::mark && t.text.starts_with("end"));
}

bool is_relation(const Token& t) {
  return t.is("=") || t.is("<") || t.is(">") || t.is("<=") || t.is(">=") || t.is("!=") || t.is("in");
}

std::string words_of(Tokens tokens) {
  std::string text;
  for (const Token& t : tokens)
    for (const char c : t.text) text.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  return text;
}

Structure words(Tokens tokens) {
  Structure s;
  // A single letter keeps its case and is a symbol; words in brackets are the words.
  while (tokens.size() > 2 && opens(tokens.front()) && closes(tokens.back()))
    tokens = tokens.subspan(1, tokens.size() - 2);
  s.text = words_of(tokens);
  return s;
}

Expression infinity(bool negative) {
  Expression e;
  e.kind = Expression::Kind::symbol;
  e.name = "infinity";
  return negative ? negated(std::move(e)) : e;
}

Structure of_intervals(std::vector<Interval> intervals, std::string variable = "") {
  Structure s;
  s.kind = Kind::intervals;
  s.intervals = std::move(intervals);
  s.variable = std::move(variable);
  return s;
}

// The places of tokens for which `is_cut` holds, outside of all brackets.
template <typename Predicate>
std::vector<Tokens> split(Tokens tokens, Predicate is_cut) {
  std::vector<Tokens> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (opens(tokens[i])) ++depth;
    if (closes(tokens[i])) --depth;
    if (depth == 0 && is_cut(tokens[i])) {
      parts.push_back(tokens.subspan(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(tokens.subspan(begin));
  return parts;
}

// Whether the first token's bracket is closed by the last one. An interval's may be of different kinds.
bool is_bracketed(Tokens tokens) {
  if (tokens.size() < 2 || !opens(tokens.front()) || !closes(tokens.back())) return false;
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (opens(tokens[i])) ++depth;
    if (closes(tokens[i])) --depth;
    if (depth == 0) return i + 1 == tokens.size();
  }
  return false;
}

Structure read(Tokens tokens, int depth);

std::vector<Structure> read_parts(const std::vector<Tokens>& parts, int depth) {
  std::vector<Structure> result;
  for (const Tokens& part : parts)
    if (!part.empty() && result.size() < kMaxParts) result.push_back(read(part, depth + 1));
  return result;
}

std::optional<Structure> read_matrix(Tokens tokens, int depth) {
  Structure s;
  s.kind = Kind::matrix;
  const auto inside = tokens.subspan(1, tokens.size() - 2);
  for (Tokens row : split(inside, [](const Token& t) { return t.is("\\\\"); })) {
    if (row.empty()) continue;
    const auto parts = read_parts(split(row, [](const Token& t) { return t.is("&"); }), depth);
    if (s.columns != 0 && parts.size() != s.columns) return std::nullopt;
    s.columns = parts.size();
    s.parts.insert(s.parts.end(), parts.begin(), parts.end());
  }
  return s.parts.empty() ? std::nullopt : std::optional(std::move(s));
}

std::optional<Structure> read_bracketed(Tokens tokens, int depth) {
  const std::string& first = tokens.front().text;
  if (first.starts_with("begin")) {
    if (first.find("matrix") != std::string::npos || first.find("array") != std::string::npos)
      return read_matrix(tokens, depth);
    return std::nullopt;
  }
  const auto inside = tokens.subspan(1, tokens.size() - 2);
  const bool is_set = first == "\\{";
  if (!is_set && is_bracketed(inside) && inside.front().text.starts_with("begin"))
    return read_bracketed(inside, depth);
  const auto parts = split(inside, [](const Token& t) { return t.is(",") || t.is(";"); });
  if (parts.size() == 1 && !is_set) return std::nullopt;
  Structure s;
  s.parts = read_parts(parts, depth);
  if (is_set || first == "{") {
    s.kind = Kind::set;
    return s;
  }
  s.kind = Kind::tuple;
  s.open = first[0];
  s.close = tokens.back().text[0];
  return s;
}

std::optional<Interval> as_interval(const Structure& s) {
  if (s.kind != Kind::tuple || s.parts.size() != 2 || s.parts[0].kind != Kind::value ||
      s.parts[1].kind != Kind::value)
    return std::nullopt;
  return Interval{s.parts[0].expression, s.parts[1].expression, s.open == '[', s.close == ']'};
}

std::optional<std::vector<Interval>> as_intervals(const Structure& s) {
  if (s.kind == Kind::intervals) return s.intervals;
  if (const auto interval = as_interval(s)) return std::vector{*interval};
  if (s.kind == Kind::set) {  // single points
    std::vector<Interval> points;
    for (const Structure& part : s.parts) {
      if (part.kind != Kind::value) return std::nullopt;
      points.push_back({part.expression, part.expression, true, true});
    }
    return points;
  }
  if (s.kind == Kind::value && s.expression.kind == Expression::Kind::symbol && s.expression.name == "bbR")
    return std::vector{Interval{infinity(true), infinity(false), false, false}};
  return std::nullopt;
}

std::optional<Structure> read_union(const std::vector<Tokens>& parts, int depth) {
  std::vector<Interval> all;
  for (const Tokens& part : parts) {
    const auto intervals = as_intervals(read(part, depth + 1));
    if (!intervals) return std::nullopt;
    all.insert(all.end(), intervals->begin(), intervals->end());
  }
  return of_intervals(std::move(all));
}

std::string symbol_of(const std::optional<Expression>& e) {
  return e && e->kind == Expression::Kind::symbol && e->name != "pi" && e->name != "e" &&
                 e->name != "infinity"
             ? e->name
             : "";
}

// x > 1, 1 < x <= 5, x \in (1, 5]
std::optional<Structure> read_inequality(const std::vector<Tokens>& sides,
                                         const std::vector<const Token*>& signs, int depth) {
  if (signs.size() == 1 && signs[0]->is("in")) {
    const std::string variable = symbol_of(parse_expression(sides[0]));
    Structure right = read(sides[1], depth + 1);
    if (variable.empty()) return std::nullopt;
    if (const auto intervals = as_intervals(right); intervals && right.kind != Kind::set)
      return of_intervals(*intervals, variable);
    return right;
  }
  std::vector<Expression> values;
  for (const Tokens& side : sides) {
    auto value = parse_expression(side);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  const auto is_less = [](const Token& t) { return t.is("<") || t.is("<="); };
  const auto is_more = [](const Token& t) { return t.is(">") || t.is(">="); };
  const bool upward = std::ranges::all_of(signs, [&](const Token* t) { return is_less(*t); });
  const bool downward = std::ranges::all_of(signs, [&](const Token* t) { return is_more(*t); });
  if (signs.size() == 1 && signs[0]->is("!=") && !symbol_of(values[0]).empty())
    return of_intervals(
        {{infinity(true), values[1], false, false}, {values[1], infinity(false), false, false}},
        symbol_of(values[0]));
  if (!upward && !downward) return std::nullopt;
  const auto closed = [](const Token* t) { return t->text.ends_with('='); };
  if (signs.size() == 1) {
    const bool on_left = !symbol_of(values[0]).empty();
    const std::string variable = symbol_of(values[on_left ? 0 : 1]);
    if (variable.empty()) return std::nullopt;
    const Expression& bound = values[on_left ? 1 : 0];
    const bool from_below = on_left == upward;
    Interval interval;
    interval.low = from_below ? infinity(true) : bound;
    interval.high = from_below ? bound : infinity(false);
    (from_below ? interval.high_closed : interval.low_closed) = closed(signs[0]);
    return of_intervals({interval}, variable);
  }
  const std::string variable = symbol_of(values[1]);
  if (signs.size() != 2 || variable.empty()) return std::nullopt;
  if (upward) return of_intervals({{values[0], values[2], closed(signs[0]), closed(signs[1])}}, variable);
  return of_intervals({{values[2], values[0], closed(signs[1]), closed(signs[0])}}, variable);
}

// f(x) on the left of an equation names what stands on the right.
std::string function_name(Tokens side) {
  if (side.size() == 4 && side[0].kind == TokenKind::symbol && side[1].is("(") &&
      side[2].kind == TokenKind::symbol && side[3].is(")"))
    return words_of(side);
  return "";
}

std::optional<Structure> read_relation(Tokens tokens, int depth) {
  std::vector<const Token*> signs;
  std::vector<Tokens> sides = split(tokens, [&](const Token& t) {
    const bool found = is_relation(t);
    if (found) signs.push_back(&t);
    return found;
  });
  if (signs.empty()) return std::nullopt;
  if (sides[0].empty() && signs.size() == 1) return read(sides[1], depth + 1);  // "= 5"
  if (!std::ranges::all_of(signs, [](const Token* t) { return t->is("="); }))
    return read_inequality(sides, signs, depth);
  if (std::ranges::any_of(sides, [](const Tokens& side) { return side.empty(); })) return std::nullopt;
  // a = b = c: the answer is the last of a calculation.
  Tokens left = sides[0], right = sides.back();
  if (symbol_of(parse_expression(left)).empty() && !symbol_of(parse_expression(right)).empty())
    std::swap(left, right);
  const auto first = parse_expression(left);
  const Structure value = read(right, depth + 1);
  std::string variable = symbol_of(first);
  if (variable.empty()) variable = function_name(left);
  if (variable.empty() && left.size() <= 4 && !first) variable = words_of(left);  // "Area = 5", "AB = 5"
  if (value.kind != Kind::value) {
    // x = \pm 1, (x, y) = (1, 2): the answer is what stands on the right.
    const bool names = std::ranges::all_of(left, [](const Token& t) {
      return t.kind == TokenKind::symbol || t.kind == TokenKind::text || t.is("(") || t.is(")") || t.is(",");
    });
    if (!variable.empty() || names) return value;
    return std::nullopt;
  }
  if (sides.size() > 2) return value;
  if (!first && variable.empty()) return std::nullopt;
  if (first && first->kind == Expression::Kind::number) variable.clear();
  Structure s;
  s.kind = Kind::equation;
  s.variable = variable;
  s.unit = value.unit;
  if (!variable.empty()) s.solved = value.expression;
  if (first)
    s.expression = operation(Expression::Kind::add, *first, negated(value.expression));
  else
    s.expression = value.expression;
  return s;
}

Structure list_of(std::vector<Structure> parts) {
  // Inequalities joined by "or" are one set of numbers.
  if (std::ranges::all_of(parts, [](const Structure& s) { return s.kind == Kind::intervals; })) {
    std::vector<Interval> all;
    for (const Structure& s : parts) all.insert(all.end(), s.intervals.begin(), s.intervals.end());
    return of_intervals(std::move(all), parts[0].variable);
  }
  Structure s;
  s.kind = Kind::list;
  for (Structure& part : parts) {
    // "1, \pm 2": a list in a list is the same list.
    if (part.kind == Kind::list)
      s.parts.insert(s.parts.end(), part.parts.begin(), part.parts.end());
    else
      s.parts.push_back(std::move(part));
  }
  return s;
}

Structure read(Tokens tokens, int depth) {
  while (!tokens.empty() &&
         (tokens.back().is(".") || tokens.back().is(",") || tokens.back().is(";") || tokens.back().is(":")))
    tokens = tokens.first(tokens.size() - 1);
  if (depth > kMaxDepth || tokens.empty()) return words(tokens);
  while (is_bracketed(tokens) && tokens.front().is("{") &&
         split(tokens.subspan(1, tokens.size() - 2), [](const Token& t) { return t.is(","); }).size() == 1)
    tokens = tokens.subspan(1, tokens.size() - 2);
  if (tokens.empty()) return words(tokens);
  if (const auto parts = split(tokens, [](const Token& t) { return t.is("cup"); }); parts.size() > 1)
    if (auto found = read_union(parts, depth)) return *found;
  const auto joins = [](const Token& t) {
    return t.is(",") || t.is(";") || t.is_text("or") || t.is_text("and");
  };
  if (const auto parts = split(tokens, joins); parts.size() > 1) {
    auto read = read_parts(parts, depth);
    if (read.size() > 1) return list_of(std::move(read));
    if (read.size() == 1) return read[0];
  }
  if (auto relation = read_relation(tokens, depth)) return *relation;
  if (is_bracketed(tokens))
    if (auto found = read_bracketed(tokens, depth)) return *found;
  const auto value_of = [&](int plus_minus) -> std::optional<Structure> {
    auto e = parse_expression(tokens, plus_minus);
    if (!e) return std::nullopt;
    Structure s;
    s.kind = Kind::value;
    s.unit = e->unit;
    s.expression = std::move(*e);
    if (s.expression.kind == Expression::Kind::symbol && s.expression.name == "emptyset") {
      s = {};
      s.kind = Kind::set;
    }
    return s;
  };
  const auto plus = value_of(1);
  if (!plus) return words(tokens);
  if (std::ranges::any_of(tokens, [](const Token& t) { return t.is("pm"); }))
    return list_of({*plus, *value_of(-1)});
  return *plus;
}

}  // namespace

Structure structure_of(std::string_view answer) {
  try {
    const auto tokens = tokens_of(answer);
    return read(tokens, 0);
  } catch (const NotExact&) {  // digits beyond all bounds: as they stand
    Structure s;
    for (const char c : answer)
      if (c != ' ' && c != ',' && c != '$') s.text.push_back(c);
    return s;
  }
}

}  // namespace trireme::answers
