// The interpreter's expressions and calls.
#include <algorithm>

#include "trainer/jinja/attributes.h"
#include "trainer/jinja/filters.h"
#include "trainer/jinja/interpreter.h"
#include "trainer/jinja/interpreter_depth.h"
#include "trainer/jinja/python_text.h"
#include "trainer/jinja/tests.h"

namespace trireme::jinja {

Value Interpreter::evaluate(const Expression& node, Frame& frame) {
  using Kind = Expression::Kind;
  const Depth depth(*this);
  work_.spend(1);
  line_ = node.line;
  const auto child = [&](size_t i) { return evaluate(*node.children[i], frame); };
  switch (node.kind) {
    case Kind::constant:
      return node.constant;
    case Kind::name:
      return evaluate_name(node, frame);
    case Kind::list:
    case Kind::tuple:
      return evaluate_items(node, frame);
    case Kind::dict:
      return evaluate_dict(node, frame);
    case Kind::both: {
      const Value left = child(0);
      return truth(left) ? child(1) : left;
    }
    case Kind::either: {
      const Value left = child(0);
      return truth(left) ? left : child(1);
    }
    case Kind::negated:
      return Value::boolean(!truth(child(0)));
    case Kind::conditional:
      if (truth(child(0))) return child(1);
      if (node.children[2]) return child(2);
      return work_.undefined(fmt::format("the condition on line {} is false and has no else", node.line));
    case Kind::comparison:
      return evaluate_comparison(node, frame);
    case Kind::concatenation:
      return evaluate_concatenation(node, frame);
    case Kind::call:
      return evaluate_call(node, frame);
    case Kind::slice:
      return evaluate_slice(node, frame);
    default:
      return evaluate_operation(node, frame);
  }
}

// Operands first, then one operation on them, which knows its line if it fails.
Value Interpreter::evaluate_operation(const Expression& node, Frame& frame) {
  using Kind = Expression::Kind;
  const Value left = evaluate(*node.children[0], frame);
  switch (node.kind) {
    case Kind::attribute:
      line_ = node.line;
      return get_attribute(left, node.name, work_);
    case Kind::filter:
      return evaluate_filter(node, left, frame);
    case Kind::test: {
      const Arguments arguments = evaluate_arguments(node, frame);
      line_ = node.line;
      return Value::boolean(apply_test(node.name, left, arguments, work_));
    }
    case Kind::minus:
      return negate(left);
    case Kind::plus:
      return plus(left);
    default:
      break;
  }
  const Value right = evaluate(*node.children[1], frame);
  line_ = node.line;
  return node.kind == Kind::subscript ? get_item(left, right, work_) : apply(node.binary, left, right, work_);
}

Value Interpreter::evaluate_name(const Expression& node, Frame& frame) {
  const Value& value = slot_of(node.frames_out, node.slot, frame);
  return value.is(Kind::missing) ? work_.undefined(fmt::format("'{}' is undefined", node.name)) : value;
}

Value Interpreter::evaluate_items(const Expression& node, Frame& frame) {
  const auto items = work_.slots(node.children.size());
  for (size_t i = 0; i < items.size(); ++i) items[i] = evaluate(*node.children[i], frame);
  const auto* list = work_.make(List{items.data(), items.size()});
  return node.kind == Expression::Kind::list ? Value::list(list) : Value::tuple(list);
}

namespace {

void set_entry(std::vector<Entry>& entries, const Value& key, const Value& value, Workspace& work) {
  if (!is_hashable(key)) reject("a {} cannot be a key", type_name(key));
  if (const Value* found = find(entries, key, work)) {
    *const_cast<Value*>(found) = value;
  } else {
    entries.push_back({key, value});
  }
}

}  // namespace

Value Interpreter::evaluate_dict(const Expression& node, Frame& frame) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < node.children.size(); i += 2) {
    const Value key = evaluate(*node.children[i], frame);
    set_entry(entries, key, evaluate(*node.children[i + 1], frame), work_);
  }
  return work_.dict(entries);
}

Value Interpreter::evaluate_slice(const Expression& node, Frame& frame) {
  const Value value = evaluate(*node.children[0], frame);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i)
    bounds[i] = node.children[i + 1] ? evaluate(*node.children[i + 1], frame) : Value::none();
  line_ = node.line;
  return slice(value, bounds[0], bounds[1], bounds[2], work_);
}

Value Interpreter::evaluate_comparison(const Expression& node, Frame& frame) {
  Value left = evaluate(*node.children[0], frame);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    const Value right = evaluate(*node.children[i + 1], frame);
    line_ = node.line;
    if (!compare(node.comparisons[i], left, right, work_)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concatenation(const Expression& node, Frame& frame) {
  std::vector<Value> parts;
  for (const auto& child : node.children) parts.push_back(evaluate(*child, frame));
  line_ = node.line;
  std::string text;
  for (const Value& part : parts) append_text(text, part, work_);
  return work_.string(text);
}

Arguments Interpreter::evaluate_arguments(const Expression& node, Frame& frame) {
  Arguments arguments;
  for (size_t i = 0; i < node.positional; ++i)
    arguments.positional.push_back(evaluate(*node.children[i + 1], frame));
  for (size_t i = 0; i < node.named.size(); ++i)
    arguments.named.emplace_back(node.named[i], evaluate(*node.children[node.positional + i + 1], frame));
  if (node.more_positional) {
    const List more = iterate(evaluate(*node.more_positional, frame), work_);
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  }
  if (node.more_named) {
    const Value more = evaluate(*node.more_named, frame);
    if (!more.is(Kind::dict)) reject("** needs a mapping, not a {}", type_name(more));
    for (const Entry& entry : more.as_dict()) {
      if (!entry.key.is(Kind::string)) reject("** needs keys that are text");
      for (const auto& [name, value] : arguments.named)
        if (name == entry.key.as_string()) reject("the argument '{}' is given twice", name);
      arguments.named.emplace_back(entry.key.as_string(), entry.value);
    }
  }
  return arguments;
}

Value Interpreter::evaluate_filter(const Expression& node, const Value& value, Frame& frame) {
  const Arguments arguments = evaluate_arguments(node, frame);
  line_ = node.line;
  return apply_filter(node.name, value, arguments, work_);
}

Value Interpreter::evaluate_block_filter(const Expression& node, const Value& text, Frame& frame) {
  const Value value = node.children[0] ? evaluate_block_filter(*node.children[0], text, frame) : text;
  return evaluate_filter(node, value, frame);
}

Value Interpreter::evaluate_call(const Expression& node, Frame& frame, const Value* caller) {
  const Value callee = evaluate(*node.children[0], frame);
  Arguments arguments = evaluate_arguments(node, frame);
  if (caller) arguments.named.emplace_back("caller", *caller);
  line_ = node.line;
  return call(callee, arguments);
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (callee.is(Kind::undefined)) reject("{}, so it cannot be called", callee.as_string());
  if (!callee.is(Kind::callable)) reject("a {} cannot be called", type_name(callee));
  const Callable& callable = callee.as_callable();
  switch (callable.what) {
    case Callable::What::macro:
      return call_macro(callable, arguments);
    case Callable::What::method:
      return call_method(callable, arguments, work_);
    default:
      return call_function(callable.name, arguments, work_);
  }
}

Value Interpreter::call_macro(const Callable& macro, const Arguments& arguments) {
  const Depth depth(*this);
  const Statement& s = *macro.macro;
  Frame& frame = *make_frame(s.scope, macro.frame);
  const auto& given = arguments.positional;
  const size_t by_place = std::min(given.size(), s.parameters.size());
  for (size_t i = 0; i < by_place; ++i) frame.slots[static_cast<size_t>(s.parameters[i].slot)] = given[i];
  if (s.varargs_slot >= 0) {
    frame.slots[static_cast<size_t>(s.varargs_slot)] =
        work_.tuple(std::span(given).subspan(by_place, given.size() - by_place));
  } else if (given.size() > by_place) {
    reject("the macro '{}' takes no more than {} arguments", macro.name, s.parameters.size());
  }
  std::vector<Entry> others;
  Value caller = work_.undefined("no caller is defined");
  for (const auto& [name, value] : arguments.named) {
    size_t i = by_place;
    while (i < s.parameters.size() && s.parameters[i].name != name) ++i;
    if (i < s.parameters.size()) {
      frame.slots[static_cast<size_t>(s.parameters[i].slot)] = value;
    } else if (name == "caller" && s.caller_slot >= 0) {
      if (!value.is(Kind::none)) caller = value;
    } else if (s.kwargs_slot >= 0) {
      others.push_back({Value::string(name), value});
    } else {
      reject("the macro '{}' has no argument '{}', or is given it twice", macro.name, name);
    }
  }
  if (s.caller_slot >= 0) frame.slots[static_cast<size_t>(s.caller_slot)] = caller;
  if (s.kwargs_slot >= 0) frame.slots[static_cast<size_t>(s.kwargs_slot)] = work_.dict(others);
  enter(frame);
  for (const auto& parameter : s.parameters) {
    Value& slot = frame.slots[static_cast<size_t>(parameter.slot)];
    if (!slot.is(Kind::missing)) continue;
    slot = parameter.standard
               ? evaluate(*parameter.standard, frame)
               : work_.undefined(fmt::format("the parameter '{}' was not given", parameter.name));
  }
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  run(s.body, frame);
  out_ = out;
  return work_.string(text);
}

}  // namespace trireme::jinja
