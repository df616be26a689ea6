#include "trainer/jinja/tests.h"

#include <vector>

#include "runtime/base/error.h"
#include "trainer/jinja/arguments.h"
#include "trainer/jinja/filters.h"
#include "trainer/jinja/operators.h"
#include "trainer/jinja/python_text.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

struct TestCall {
  const Value& value;
  const Arguments& arguments;
  Workspace& work;
  std::string_view name;

  // The other operand.
  Value other() const { return bind(name, arguments, {"other"}, 1)[0]; }
  void alone() const { bind(name, arguments, {}); }
  bool is(Kind kind) const { return alone(), value.is(kind); }
};

using Test = bool (*)(const TestCall&);

Value modulo(const TestCall& c, const Value& divisor) {
  return apply(BinaryOperator::modulo, c.value, divisor, c.work);
}

bool is_constant(const TestCall& c, bool truth) {
  c.alone();
  return c.value.is(Kind::boolean) && (c.value.as_integer() != 0) == truth;
}

bool is_sequence(const TestCall& c) {
  c.alone();
  return length_of(c.value) && !c.value.is(Kind::view) && !c.value.is(Kind::loop);
}

bool same(const TestCall& c) {
  const Value other = c.other();
  if (c.value.kind() != other.kind()) return false;
  switch (c.value.kind()) {
    case Kind::none:
      return true;
    case Kind::boolean:
      return c.value.as_integer() == other.as_integer();
    case Kind::undefined:
    case Kind::integer:
    case Kind::real:
    case Kind::string:
      reject("sameas of a {} is not supported; use ==", type_name(c.value));
    default:
      return c.value.identity() == other.identity();
  }
}

template <Comparison comparison>
bool compares(const TestCall& c) {
  return compare(comparison, c.value, c.other(), c.work);
}

constexpr std::pair<std::string_view, Test> kTests[] = {
    {"defined", [](const TestCall& c) { return !c.is(Kind::undefined); }},
    {"undefined", [](const TestCall& c) { return c.is(Kind::undefined); }},
    {"none", [](const TestCall& c) { return c.is(Kind::none); }},
    {"boolean", [](const TestCall& c) { return c.is(Kind::boolean); }},
    {"true", [](const TestCall& c) { return is_constant(c, true); }},
    {"false", [](const TestCall& c) { return is_constant(c, false); }},
    {"integer", [](const TestCall& c) { return c.is(Kind::integer); }},
    {"float", [](const TestCall& c) { return c.is(Kind::real); }},
    {"number", [](const TestCall& c) { return c.alone(), c.value.is_number(); }},
    {"string", [](const TestCall& c) { return c.is(Kind::string); }},
    {"mapping", [](const TestCall& c) { return c.is(Kind::dict); }},
    {"iterable", [](const TestCall& c) { return c.alone(), is_iterable(c.value); }},
    {"sequence", is_sequence},
    {"callable",
     [](const TestCall& c) {
       return c.is(Kind::callable) || c.value.is(Kind::undefined) || c.value.is(Kind::loop);
     }},
    {"escaped", [](const TestCall& c) { return c.alone(), c.value.safe(); }},
    {"sameas", same},
    {"odd",
     [](const TestCall& c) {
       return c.alone(), equal(modulo(c, Value::integer(2)), Value::integer(1), c.work);
     }},
    {"even",
     [](const TestCall& c) {
       return c.alone(), equal(modulo(c, Value::integer(2)), Value::integer(0), c.work);
     }},
    {"divisibleby", [](const TestCall& c) { return equal(modulo(c, c.other()), Value::integer(0), c.work); }},
    {"lower", [](const TestCall& c) { return c.alone(), is_lower(to_text(c.value, c.work)); }},
    {"upper", [](const TestCall& c) { return c.alone(), is_upper(to_text(c.value, c.work)); }},
    {"filter",
     [](const TestCall& c) { return c.alone(), c.value.is(Kind::string) && is_filter(c.value.as_string()); }},
    {"test",
     [](const TestCall& c) { return c.alone(), c.value.is(Kind::string) && is_test(c.value.as_string()); }},
    {"in", compares<Comparison::in>},
    {"eq", compares<Comparison::equal>},
    {"equalto", compares<Comparison::equal>},
    {"==", compares<Comparison::equal>},
    {"ne", compares<Comparison::unequal>},
    {"!=", compares<Comparison::unequal>},
    {"lt", compares<Comparison::less>},
    {"lessthan", compares<Comparison::less>},
    {"<", compares<Comparison::less>},
    {"le", compares<Comparison::less_equal>},
    {"<=", compares<Comparison::less_equal>},
    {"gt", compares<Comparison::greater>},
    {"greaterthan", compares<Comparison::greater>},
    {">", compares<Comparison::greater>},
    {"ge", compares<Comparison::greater_equal>},
    {">=", compares<Comparison::greater_equal>}};

Test find_test(std::string_view name) {
  for (const auto& [known, test] : kTests)
    if (known == name) return test;
  return nullptr;
}

}  // namespace

bool is_test(std::string_view name) {
  return find_test(name) != nullptr;
}

std::string unknown_test(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, test] : kTests) names.emplace_back(known);
  const std::string near = nearest(std::string(name), names);
  return fmt::format("there is no test '{}'{}", name, near.empty() ? "" : "; did you mean " + near + "?");
}

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments, Workspace& work) {
  const Test test = find_test(name);
  if (!test) reject("{}", unknown_test(name));
  return test({value, arguments, work, name});
}

}  // namespace trireme::jinja
