#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/answers/answer.h"
#include "trainer/answers/structure.h"

namespace trireme::answers {
namespace {

using Kind = Structure::Kind;

constexpr int kRoundedDigits = 6;    // a decimal of so many may stand for a number that it is the rounding of
constexpr size_t kMaxLength = 2000;  // of an answer that is understood; longer ones are compared as texts

// Units under one name each; others are their own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 42> kUnits = {{
    {"centimeters", "cm"}, {"centimeter", "cm"},  {"centimetres", "cm"}, {"meters", "m"},
    {"meter", "m"},        {"metres", "m"},       {"metre", "m"},        {"kilometers", "km"},
    {"kilometer", "km"},   {"millimeters", "mm"}, {"inches", "in"},      {"inch", "in"},
    {"feet", "ft"},        {"foot", "ft"},        {"yards", "yd"},       {"yard", "yd"},
    {"miles", "mi"},       {"mile", "mi"},        {"grams", "g"},        {"gram", "g"},
    {"kilograms", "kg"},   {"kilogram", "kg"},    {"pounds", "lb"},      {"pound", "lb"},
    {"lbs", "lb"},         {"ounces", "oz"},      {"ounce", "oz"},       {"seconds", "s"},
    {"second", "s"},       {"sec", "s"},          {"minutes", "min"},    {"minute", "min"},
    {"hours", "h"},        {"hour", "h"},         {"hr", "h"},           {"hrs", "h"},
    {"cm", "cm"},          {"mm", "mm"},          {"km", "km"},          {"kg", "kg"},
    {"ft", "ft"},          {"in", "in"},
}};

// The unit's one name; empty for what is not surely a unit.
std::string_view unit_name(std::string_view unit) {
  for (const auto& [written, name] : kUnits)
    if (unit == written || unit == name) return name;
  return {};
}

bool same_unit(const std::string& a, const std::string& b) {
  const auto x = unit_name(a), y = unit_name(b);
  return x.empty() || y.empty() || x == y;
}

// A decimal as what somebody rounded: half of its last digit's worth is nothing.
bool is_rounding(const Expression& decimal, const Expression& exact) {
  if (decimal.kind != Expression::Kind::number || decimal.decimals < kRoundedDigits) return false;
  const Complex value = evaluate(exact, {});
  if (!std::isfinite(value.real()) || value.imag() != 0) return false;
  return std::abs(value.real() - decimal.value.to_double()) <=
         0.5000001L * std::pow(10.0L, -static_cast<long double>(decimal.decimals));
}

bool same_value(const Expression& a, const Expression& b) {
  switch (same_exactly(a, b)) {
    case Same::yes:
      return true;
    case Same::no:
      return is_rounding(a, b) || is_rounding(b, a);
    case Same::unknown:
      return same_numerically(a, b) || is_rounding(a, b) || is_rounding(b, a);
  }
  return false;
}

bool same_expression(const Expression& a, const Expression& b) {
  if (same_value(a, b)) return true;
  const auto as_share = [](const Expression& e) {
    return operation(Expression::Kind::divide, e, number(100));
  };
  if (a.is_percentage && !b.is_percentage) return same_value(as_share(a), b);
  if (b.is_percentage && !a.is_percentage) return same_value(a, as_share(b));
  return false;
}

bool same_in_order(const std::vector<Structure>& a, const std::vector<Structure>& b) {
  return std::ranges::equal(a, b, [](const Structure& x, const Structure& y) { return same(x, y); });
}

// Every part has its equal, and none has another's: for lists. Equality is transitive but for roundings.
bool same_in_any_order(const std::vector<Structure>& a, const std::vector<Structure>& b) {
  if (a.size() != b.size()) return false;
  std::vector<bool> taken(b.size());
  return std::ranges::all_of(a, [&](const Structure& x) {
    for (size_t i = 0; i < b.size(); ++i)
      if (!taken[i] && same(x, b[i])) {
        taken[i] = true;
        return true;
      }
    return false;
  });
}

std::vector<Structure> each_once(const std::vector<Structure>& parts) {
  std::vector<Structure> result;
  for (const Structure& part : parts)
    if (std::ranges::none_of(result, [&](const Structure& other) { return same(part, other); }))
      result.push_back(part);
  return result;
}

// In order, those that touch made one; nothing if an end is no number.
std::optional<std::vector<Interval>> in_order(std::vector<Interval> intervals) {
  const auto place = [](const Expression& e) { return evaluate(e, {}).real(); };
  for (const Interval& i : intervals)
    if (!std::isfinite(place(i.low)) || !std::isfinite(place(i.high))) return std::nullopt;
  std::erase_if(intervals, [&](const Interval& i) {
    return place(i.low) > place(i.high) || (same_value(i.low, i.high) && !(i.low_closed && i.high_closed));
  });
  std::ranges::sort(intervals, [&](const Interval& a, const Interval& b) {
    return place(a.low) < place(b.low) || (place(a.low) == place(b.low) && a.low_closed && !b.low_closed);
  });
  std::vector<Interval> merged;
  for (Interval& i : intervals) {
    if (!merged.empty()) {
      Interval& last = merged.back();
      const bool touches =
          same_value(last.high, i.low) ? last.high_closed || i.low_closed : place(last.high) > place(i.low);
      if (touches) {
        if (same_value(i.high, last.high))
          last.high_closed = last.high_closed || i.high_closed;
        else if (place(i.high) > place(last.high)) {
          last.high = i.high;
          last.high_closed = i.high_closed;
        }
        continue;
      }
    }
    merged.push_back(std::move(i));
  }
  return merged;
}

bool same_intervals(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  const auto equal = [](const Interval& x, const Interval& y) {
    return x.low_closed == y.low_closed && x.high_closed == y.high_closed && same_value(x.low, y.low) &&
           same_value(x.high, y.high);
  };
  const auto left = in_order(a), right = in_order(b);
  return left && right ? std::ranges::equal(*left, *right, equal) : std::ranges::equal(a, b, equal);
}

std::optional<std::vector<Interval>> intervals_of(const Structure& s) {
  if (s.kind == Kind::intervals) return s.intervals;
  if (s.kind == Kind::tuple && s.parts.size() == 2 && s.parts[0].kind == Kind::value &&
      s.parts[1].kind == Kind::value)
    return std::vector{Interval{s.parts[0].expression, s.parts[1].expression, s.open == '[', s.close == ']'}};
  if (s.kind == Kind::value && s.expression.kind == Expression::Kind::symbol && s.expression.name == "bbR") {
    Expression infinity;
    infinity.kind = Expression::Kind::symbol;
    infinity.name = "infinity";
    return std::vector{Interval{negated(infinity), infinity, false, false}};
  }
  return std::nullopt;
}

bool same_equation(const Structure& a, const Structure& b) {
  if (a.solved && b.solved) {
    if (same_expression(*a.solved, *b.solved)) {
      // f(x) = ... and y = ... name the same thing; x = 5 and y = 5 do not.
      const bool named = a.variable.size() == 1 && b.variable.size() == 1;
      return !named || a.variable == b.variable;
    }
    if (a.variable.find('(') != std::string::npos || b.variable.find('(') != std::string::npos) return false;
  }
  return same_up_to_factor(a.expression, b.expression) == Same::yes;
}

Structure value_structure(const Expression& e, const std::string& unit) {
  Structure s;
  s.kind = Kind::value;
  s.expression = e;
  s.unit = unit;
  return s;
}

bool same_kind(const Structure& a, const Structure& b) {
  switch (a.kind) {
    case Kind::value:
      return same_expression(a.expression, b.expression) && same_unit(a.unit, b.unit);
    case Kind::words:
      return a.text == b.text;
    case Kind::list:
      return same_in_any_order(a.parts, b.parts);
    case Kind::set:
      return same_in_any_order(each_once(a.parts), each_once(b.parts));
    case Kind::tuple:
      // Of two numbers the brackets may be those of an interval.
      if (a.parts.size() == 2 && (a.open != b.open || a.close != b.close)) return false;
      return same_in_order(a.parts, b.parts);
    case Kind::matrix:
      return a.columns == b.columns && same_in_order(a.parts, b.parts);
    case Kind::equation:
      return same_equation(a, b);
    case Kind::intervals:
      return same_intervals(a.intervals, b.intervals) &&
             (a.variable.empty() || b.variable.empty() || a.variable == b.variable);
  }
  return false;
}

// Of two kinds that may mean the same: `a` is of the earlier one, or tried both ways by the caller.
bool same_across(const Structure& a, const Structure& b) {
  if (a.kind == Kind::equation && a.solved) {
    if (b.kind == Kind::value) return same(value_structure(*a.solved, a.unit), b);
    return false;
  }
  if (a.kind == Kind::list && b.kind == Kind::set)
    return same_in_any_order(each_once(a.parts), each_once(b.parts));
  if (a.kind == Kind::list && b.kind == Kind::tuple) return same_in_order(a.parts, b.parts);
  if (a.kind == Kind::matrix && b.kind == Kind::tuple && (a.columns == 1 || a.columns == a.parts.size()))
    return b.open == '(' && same_in_order(a.parts, b.parts);
  if (a.kind == Kind::set && a.parts.size() == 1) return same(a.parts[0], b);
  if (a.kind == Kind::intervals || b.kind == Kind::intervals || a.kind == Kind::tuple)
    if (const auto x = intervals_of(a), y = intervals_of(b); x && y) return same_intervals(*x, *y);
  return false;
}

std::string with_single_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space)
      out.push_back(c);
    else if (!out.empty() && out.back() != ' ')
      out.push_back(' ');
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string without_spaces(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') out.push_back(c);
  return out;
}

}  // namespace

bool same(const Structure& a, const Structure& b) {
  if (a.kind == b.kind) return same_kind(a, b);
  return same_across(a, b) || same_across(b, a);
}

bool same_answer(std::string_view response, std::string_view truth) {
  const std::string a = with_single_spaces(response), b = with_single_spaces(truth);
  if (a.empty() || b.empty()) return false;
  if (a == b) return true;
  if (a.size() > kMaxLength || b.size() > kMaxLength) return false;
  return same(structure_of(response), structure_of(truth));
}

std::string normal_answer(std::string_view answer) {
  if (answer.size() <= kMaxLength) {
    const Structure s = structure_of(answer);
    const bool is_solved = s.kind == Kind::equation && s.solved;
    if (s.kind == Kind::value || is_solved)
      if (const auto value = exact_value(is_solved ? *s.solved : s.expression))
        return value->to_string() + (s.expression.is_percentage ? "%" : "");
    if (s.kind == Kind::words) return s.text;
  }
  return without_spaces(answer);
}

}  // namespace trireme::answers
