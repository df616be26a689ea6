#include "trainer/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "trainer/jinja/python_text.h"
#include "trainer/jinja/text_format.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

constexpr int kMaxDepth = 200;

bool equal_nested(const Value& left, const Value& right, Workspace& work, int depth);

bool equal_items(const List& left, const List& right, Workspace& work, int depth) {
  if (left.size != right.size) return false;
  for (size_t i = 0; i < left.size; ++i)
    if (!equal_nested(left.items[i], right.items[i], work, depth)) return false;
  return true;
}

bool equal_entries(const Dict& left, const Dict& right, Workspace& work, int depth) {
  if (left.size != right.size) return false;
  for (const Entry& entry : left) {
    const Value* other = find(right, entry.key, work);
    if (!other || !equal_nested(entry.value, *other, work, depth)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  return left.size() == right.size() &&
         (left.size() == 0 || (left.start == right.start && (left.size() == 1 || left.step == right.step)));
}

bool equal_nested(const Value& left, const Value& right, Workspace& work, int depth) {
  if (depth > kMaxDepth) reject("a value is nested more than {} deep", kMaxDepth);
  work.spend(1);
  if (left.is_number() && right.is_number()) {
    if (left.is_whole() && right.is_whole()) return left.as_integer() == right.as_integer();
    if (left.is_whole()) return static_cast<long double>(left.as_integer()) == right.as_real();
    if (right.is_whole()) return left.as_real() == static_cast<long double>(right.as_integer());
    return left.as_real() == right.as_real();
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::none:
    case Kind::undefined:
    case Kind::missing:
      return true;
    case Kind::string:
      work.spend(std::min(left.as_string().size(), right.as_string().size()) / 256);
      return left.as_string() == right.as_string();
    case Kind::list:
    case Kind::tuple:
      return equal_items(left.as_list(), right.as_list(), work, depth + 1);
    case Kind::dict:
      return equal_entries(left.as_dict(), right.as_dict(), work, depth + 1);
    case Kind::range:
      return equal_ranges(left.as_range(), right.as_range());
    default:
      return left.identity() == right.identity();
  }
}

bool less_nested(const Value& left, const Value& right, Workspace& work, int depth) {
  if (depth > kMaxDepth) reject("a value is nested more than {} deep", kMaxDepth);
  work.spend(1);
  if (left.is_number() && right.is_number()) {
    if (left.is_whole() && right.is_whole()) return left.as_integer() < right.as_integer();
    const auto wide = [](const Value& v) -> long double {
      return v.is_whole() ? static_cast<long double>(v.as_integer()) : v.as_real();
    };
    return wide(left) < wide(right);
  }
  if (left.is(Kind::string) && right.is(Kind::string)) {
    work.spend(std::min(left.as_string().size(), right.as_string().size()) / 256);
    return left.as_string() < right.as_string();  // UTF-8 has the order of its code points
  }
  if (left.kind() == right.kind() && (left.is(Kind::list) || left.is(Kind::tuple))) {
    const List& a = left.as_list();
    const List& b = right.as_list();
    for (size_t i = 0; i < std::min(a.size, b.size); ++i)
      if (!equal_nested(a.items[i], b.items[i], work, depth + 1))
        return less_nested(a.items[i], b.items[i], work, depth + 1);
    return a.size < b.size;
  }
  for (const Value* value : {&left, &right})
    if (value->is(Kind::undefined)) reject("{}", value->as_string());
  reject("{} and {} have no order", type_name(left), type_name(right));
}

[[noreturn]] void overflow() {
  reject("an integer does not fit 64 bits");
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (true) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) overflow();
    if ((exponent >>= 1) == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) overflow();
  }
}

Value apply_to_integers(BinaryOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOperator::add:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      break;
    case BinaryOperator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      break;
    case BinaryOperator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      break;
    case BinaryOperator::divide:
      if (b == 0) reject("division by zero");
      return Value::real(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOperator::floor_divide:
    case BinaryOperator::modulo: {
      if (b == 0) reject("division by zero");
      const bool quotient = op == BinaryOperator::floor_divide;
      if (b == -1) {
        if (quotient && __builtin_sub_overflow(int64_t{0}, a, &result)) overflow();
        break;  // a % -1 is 0
      }
      const bool down = a % b != 0 && (a < 0) != (b < 0);
      result = quotient ? a / b - down : a % b + (down ? b : 0);
      break;
    }
    case BinaryOperator::power:
      if (b < 0) {
        if (a == 0) reject("0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      return Value::integer(integer_power(a, b));
  }
  return Value::integer(result);
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

double floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value apply_to_reals(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::add:
      return Value::real(a + b);
    case BinaryOperator::subtract:
      return Value::real(a - b);
    case BinaryOperator::multiply:
      return Value::real(a * b);
    case BinaryOperator::power: {
      if (a == 0 && b < 0) reject("0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
        reject("a negative number has no real power {}", b);
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) reject("a number is too large");
      return Value::real(result);
    }
    default:
      break;
  }
  if (b == 0) reject("division by zero");
  if (op == BinaryOperator::divide) return Value::real(a / b);
  return Value::real(op == BinaryOperator::modulo ? floor_modulo(a, b) : floor_divide(a, b));
}

void check_repetition(size_t size, int64_t times) {
  if (size && times > static_cast<int64_t>(Workspace::kMaxOutputBytes / size))
    reject("a repetition makes more than {} MB", Workspace::kMaxOutputBytes >> 20);
}

Value repeat(const Value& value, int64_t times, Workspace& work) {
  times = std::max<int64_t>(times, 0);
  if (value.is(Kind::string)) {
    const auto text = value.as_string();
    check_repetition(text.size(), times);
    std::string out;
    if (!text.empty())
      for (int64_t i = 0; i < times; ++i) out += text;
    return work.string(out, value.safe());
  }
  const List& list = value.as_list();
  check_repetition(list.size * sizeof(Value), times);
  std::vector<Value> items;
  if (list.size)
    for (int64_t i = 0; i < times; ++i) items.insert(items.end(), list.begin(), list.end());
  return value.is(Kind::list) ? work.list(items) : work.tuple(items);
}

Value concatenate(const Value& left, const Value& right, Workspace& work) {
  if (left.is(Kind::string)) {
    const bool safe = left.safe() || right.safe();
    const auto text = [&](const Value& v) {
      return safe && !v.safe() ? escape_html(v.as_string()) : std::string(v.as_string());
    };
    return work.string(text(left) + text(right), safe);
  }
  std::vector<Value> items(left.as_list().begin(), left.as_list().end());
  items.insert(items.end(), right.as_list().begin(), right.as_list().end());
  return left.is(Kind::list) ? work.list(items) : work.tuple(items);
}

bool is_repeatable(const Value& v) {
  return v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::tuple);
}

}  // namespace

Value apply(BinaryOperator op, const Value& left, const Value& right, Workspace& work) {
  if (left.is_whole() && right.is_whole())
    return apply_to_integers(op, left.as_integer(), right.as_integer());
  if (left.is_number() && right.is_number()) return apply_to_reals(op, left.as_real(), right.as_real());
  if (op == BinaryOperator::add && left.kind() == right.kind() && is_repeatable(left))
    return concatenate(left, right, work);
  if (op == BinaryOperator::multiply) {
    if (is_repeatable(left) && right.is_whole()) return repeat(left, right.as_integer(), work);
    if (is_repeatable(right) && left.is_whole()) return repeat(right, left.as_integer(), work);
  }
  if (op == BinaryOperator::modulo && left.is(Kind::string)) {
    if (left.safe()) reject("text marked safe % values is not supported");
    return work.string(format_percent(left.as_string(), right, work));
  }
  for (const Value* value : {&left, &right})
    if (value->is(Kind::undefined)) reject("{}", value->as_string());
  static constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};
  reject("{} {} {} has no meaning", type_name(left), kSigns[static_cast<int>(op)], type_name(right));
}

Value negate(const Value& value) {
  if (value.is_whole()) return apply_to_integers(BinaryOperator::subtract, 0, value.as_integer());
  if (value.is(Kind::real)) return Value::real(-value.as_real());
  if (value.is(Kind::undefined)) reject("{}", value.as_string());
  reject("- {} has no meaning", type_name(value));
}

Value plus(const Value& value) {
  if (value.is_whole()) return Value::integer(value.as_integer());
  if (value.is(Kind::real)) return value;
  if (value.is(Kind::undefined)) reject("{}", value.as_string());
  reject("+ {} has no meaning", type_name(value));
}

bool equal(const Value& left, const Value& right, Workspace& work) {
  return equal_nested(left, right, work, 0);
}
bool less(const Value& left, const Value& right, Workspace& work) {
  return less_nested(left, right, work, 0);
}

bool compare(Comparison op, const Value& left, const Value& right, Workspace& work) {
  switch (op) {
    case Comparison::equal:
      return equal(left, right, work);
    case Comparison::unequal:
      return !equal(left, right, work);
    case Comparison::less:
      return less(left, right, work);
    case Comparison::greater:
      return less(right, left, work);
    case Comparison::less_equal:
    case Comparison::greater_equal: {
      const bool nan = (left.is(Kind::real) && std::isnan(left.as_real())) ||
                       (right.is(Kind::real) && std::isnan(right.as_real()));
      const bool swapped = op == Comparison::less_equal ? less(right, left, work) : less(left, right, work);
      return !nan && !swapped;
    }
    case Comparison::in:
      return contains(right, left, work);
    case Comparison::not_in:
      return !contains(right, left, work);
  }
  return false;
}

bool contains(const Value& container, const Value& item, Workspace& work) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is(Kind::string)) reject("only text can be in text, not a {}", type_name(item));
      work.spend_search(container.as_string().size(), item.as_string().size());
      return container.as_string().find(item.as_string()) != std::string_view::npos;
    case Kind::dict:
      if (!is_hashable(item)) reject("a {} cannot be a key", type_name(item));
      return find(container.as_dict(), item, work) != nullptr;
    default: {
      const List items = iterate(container, work);
      for (size_t i = 0; i < items.size; ++i) {
        if (!equal(items.items[i], item, work)) continue;
        if (container.is(Kind::iterator)) container.as_iterator().next -= items.size - i - 1;
        return true;
      }
      return false;
    }
  }
}

bool is_iterable(const Value& value) {
  return !value.is_number() && !value.is(Kind::none) && !value.is(Kind::space) && !value.is(Kind::callable);
}

List iterate(const Value& value, Workspace& work) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::missing:
      return {};
    case Kind::list:
    case Kind::tuple:
      return value.as_list();
    case Kind::view:
      return value.as_view().items;
    case Kind::iterator: {
      Iterator& iterator = value.as_iterator();
      const List rest = iterator.rest();
      iterator.next = iterator.items.size;
      return rest;
    }
    case Kind::string: {
      Workspace::check_items(value.as_string().size());
      const auto points = split_code_points(value.as_string());
      const auto items = work.slots(points.size());
      for (size_t i = 0; i < points.size(); ++i) items[i] = Value::string(points[i]);
      return {items.data(), items.size()};
    }
    case Kind::dict: {
      const Dict& dict = value.as_dict();
      const auto items = work.slots(dict.size);
      for (size_t i = 0; i < dict.size; ++i) items[i] = dict.entries[i].key;
      return {items.data(), items.size()};
    }
    case Kind::range: {
      const auto items = work.slots(value.as_range().size());
      for (size_t i = 0; i < items.size(); ++i) items[i] = Value::integer(value.as_range().at(i));
      return {items.data(), items.size()};
    }
    default:
      reject("a {} cannot be walked over", type_name(value));
  }
}

std::optional<size_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return count_code_points(value.as_string());
    case Kind::list:
    case Kind::tuple:
      return value.as_list().size;
    case Kind::dict:
      return value.as_dict().size;
    case Kind::range:
      return value.as_range().size();
    case Kind::view:
      return value.as_view().items.size;
    case Kind::loop:
      return value.as_loop().length();
    default:
      return {};
  }
}

namespace {

bool is_hashable_nested(const Value& value, int depth) {
  if (depth > kMaxDepth) reject("a value is nested more than {} deep", kMaxDepth);
  if (value.is(Kind::view)) return value.as_view().name == std::string_view("dict_values");
  if (value.is(Kind::list) || value.is(Kind::dict)) return false;
  if (!value.is(Kind::tuple)) return true;
  return std::all_of(value.as_list().begin(), value.as_list().end(),
                     [&](const Value& item) { return is_hashable_nested(item, depth + 1); });
}

}  // namespace

bool is_hashable(const Value& value) {
  return is_hashable_nested(value, 0);
}

}  // namespace trireme::jinja
