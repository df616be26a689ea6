#include "trainer/jinja/attributes.h"

#include <algorithm>
#include <charconv>

#include "trainer/jinja/arguments.h"
#include "trainer/jinja/operators.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value no_attribute(const Value& value, std::string_view name, Workspace& work) {
  return work.undefined(fmt::format("'{}' is undefined: a {} has none", name, type_name(value)));
}

Value loop_attribute(const Value& value, std::string_view name, Workspace& work) {
  LoopState& loop = value.as_loop();
  const size_t index = loop.index0;
  const auto integer = [](size_t i) { return Value::integer(static_cast<int64_t>(i)); };
  if (name == "index") return integer(index + 1);
  if (name == "index0") return integer(index);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(!loop.has(index + 1));
  if (name == "length") return integer(loop.length());
  if (name == "revindex") return integer(loop.length() - index);
  if (name == "revindex0") return integer(loop.length() - index - 1);
  if (name == "depth") return integer(1);
  if (name == "depth0") return integer(0);
  if (name == "previtem")
    return index == 0 ? work.undefined("there is no previous item") : loop.items[index - 1];
  if (name == "nextitem")
    return loop.has(index + 1) ? loop.items[index + 1] : work.undefined("there is no next item");
  return {};
}

// What the value's type has by that name: missing if nothing.
Value type_attribute(const Value& value, std::string_view name, Workspace& work) {
  Support support = Support::none;
  switch (value.kind()) {
    case Kind::string:
      support = string_method_support(name);
      break;
    case Kind::dict:
      if (is_one_of(name, {"items", "keys", "values", "get", "copy"})) support = Support::yes;
      if (is_one_of(name, {"fromkeys"})) support = Support::refused;
      if (is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"}))
        return work.undefined(fmt::format("'{}' would change a dict, which a template may not", name));
      break;
    case Kind::list:
    case Kind::tuple:
      if (is_one_of(name, {"index", "count"})) support = Support::yes;
      if (value.is(Kind::tuple)) break;
      if (name == "copy") support = Support::yes;
      if (is_one_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}))
        return work.undefined(fmt::format("'{}' would change a list, which a template may not", name));
      break;
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      if (is_one_of(name, {"real", "imag", "conjugate", "as_integer_ratio"})) support = Support::refused;
      if (value.is_whole() &&
          is_one_of(name, {"numerator", "denominator", "bit_length", "bit_count", "to_bytes", "from_bytes"}))
        support = Support::refused;
      if (value.is(Kind::real) && is_one_of(name, {"is_integer", "hex", "fromhex"}))
        support = Support::refused;
      break;
    case Kind::range:
      if (name == "start") return Value::integer(value.as_range().start);
      if (name == "stop") return Value::integer(value.as_range().stop);
      if (name == "step") return Value::integer(value.as_range().step);
      if (is_one_of(name, {"index", "count"})) support = Support::refused;
      break;
    case Kind::view:
      if (name == "mapping" ||
          (name == "isdisjoint" && value.as_view().name != std::string_view("dict_values")))
        support = Support::refused;
      break;
    case Kind::loop:
      if (is_one_of(name, {"cycle", "changed"})) support = Support::yes;
      if (support == Support::none) return loop_attribute(value, name, work);
      break;
    case Kind::space: {
      const Value* found = find(value.as_space().entries, Value::string(name), work);
      return found ? *found : Value();
    }
    case Kind::callable:
      if (value.as_callable().what == Callable::What::macro && name == "name")
        return value.as_callable().name.empty() ? Value::none() : Value::string(value.as_callable().name);
      break;
    default:
      break;
  }
  if (support == Support::none) return {};
  if (support == Support::refused)
    reject("'{}' of a {} is outside the part of Jinja that is supported", name, type_name(value));
  Callable method{Callable::What::method, {}, value, nullptr, nullptr};
  method.name = work.string(name).as_string();
  return Value::callable(work.make(method));
}

// An index of a sequence of `size`, negative from its end.
bool to_index(const Value& key, size_t size, size_t* index) {
  if (!key.is_whole()) return false;
  int64_t i = key.as_integer();
  if (i < 0) i += static_cast<int64_t>(size);
  if (i < 0 || i >= static_cast<int64_t>(size)) return false;
  *index = static_cast<size_t>(i);
  return true;
}

// The item, missing if there is none.
Value item_of(const Value& value, const Value& key, Workspace& work) {
  size_t index = 0;
  switch (value.kind()) {
    case Kind::dict: {
      const Value* found = is_hashable(key) ? find(value.as_dict(), key, work) : nullptr;
      return found ? *found : Value();
    }
    case Kind::list:
    case Kind::tuple:
      return to_index(key, value.as_list().size, &index) ? value.as_list().items[index] : Value();
    case Kind::range:
      return to_index(key, value.as_range().size(), &index) ? Value::integer(value.as_range().at(index))
                                                            : Value();
    case Kind::string: {
      if (!key.is_whole()) return {};
      work.spend(value.as_string().size() / 64);
      Workspace::check_items(value.as_string().size());
      const auto points = split_code_points(value.as_string());
      return to_index(key, points.size(), &index) ? Value::string(points[index], value.safe()) : Value();
    }
    default:
      return {};
  }
}

bool is_internal(std::string_view name) {
  return name.substr(0, 2) == "__";
}

}  // namespace

Value get_attribute(const Value& value, std::string_view name, Workspace& work) {
  if (value.is(Kind::undefined)) reject("{}", value.as_string());
  if (is_internal(name)) return no_attribute(value, name, work);
  Value found = type_attribute(value, name, work);
  if (found.is(Kind::missing) && value.is(Kind::dict)) found = item_of(value, Value::string(name), work);
  return found.is(Kind::missing) ? no_attribute(value, name, work) : found;
}

Value get_item(const Value& value, const Value& key, Workspace& work) {
  if (value.is(Kind::undefined)) reject("{}", value.as_string());
  Value found = item_of(value, key, work);
  if (found.is(Kind::missing) && key.is(Kind::string) && !is_internal(key.as_string()))
    found = type_attribute(value, key.as_string(), work);
  if (!found.is(Kind::missing)) return found;
  if (key.is(Kind::string)) return no_attribute(value, key.as_string(), work);
  if (key.is_whole()) return no_attribute(value, std::to_string(key.as_integer()), work);
  return work.undefined(fmt::format("a {} has no such element", type_name(value)));
}

Value get_path(const Value& value, const Value& path, Workspace& work, const Value& standard) {
  Value item = value;
  const auto step = [&](const Value& key) {
    item = get_item(item, key, work);
    if (item.is(Kind::undefined) && !standard.is(Kind::missing)) item = standard;
  };
  if (path.is(Kind::none) || path.is(Kind::missing)) return item;
  if (!path.is(Kind::string)) {
    step(path);
    return item;
  }
  std::string_view rest = path.as_string();
  while (true) {
    const auto part = rest.substr(0, rest.find('.'));
    int64_t index = 0;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && std::from_chars(part.data(), part.data() + part.size(), index).ec == std::errc()) {
      step(Value::integer(index));
    } else {
      step(Value::string(part));
    }
    if (part.size() == rest.size()) return item;
    rest.remove_prefix(part.size() + 1);
  }
}

namespace {

Value call_dict_method(const Callable& method, const Arguments& arguments, Workspace& work) {
  const Dict& dict = method.self.as_dict();
  if (method.name == "get") {
    if (!arguments.named.empty()) reject("get takes no named arguments");
    const auto given = bind("get", arguments, {"key", "default"}, 1);
    if (!is_hashable(given[0])) reject("a {} cannot be a key", type_name(given[0]));
    const Value* found = find(dict, given[0], work);
    if (found) return *found;
    return given[1].is(Kind::missing) ? Value::none() : given[1];
  }
  bind(method.name, arguments, {});
  if (method.name == "copy") return method.self;
  const auto items = work.slots(dict.size);
  for (size_t i = 0; i < dict.size; ++i) {
    const Entry& entry = dict.entries[i];
    if (method.name == "keys") {
      items[i] = entry.key;
    } else if (method.name == "values") {
      items[i] = entry.value;
    } else {
      const Value pair[] = {entry.key, entry.value};
      items[i] = work.tuple(pair);
    }
  }
  const char* name = method.name == "keys"     ? "dict_keys"
                     : method.name == "values" ? "dict_values"
                                               : "dict_items";
  return Value::view(work.make(View{name, {items.data(), items.size()}}));
}

Value call_list_method(const Callable& method, const Arguments& arguments, Workspace& work) {
  if (!arguments.named.empty()) reject("{} takes no named arguments", method.name);
  const List& list = method.self.as_list();
  if (method.name == "copy") {
    bind("copy", arguments, {});
    return method.self;
  }
  const Value item = bind(method.name, arguments, {"value"}, 1)[0];
  int64_t count = 0;
  for (size_t i = 0; i < list.size; ++i) {
    if (!equal(list.items[i], item, work)) continue;
    if (method.name == "index") return Value::integer(static_cast<int64_t>(i));
    ++count;
  }
  if (method.name == "index") reject("index: the value is not in the {}", type_name(method.self));
  return Value::integer(count);
}

Value call_loop_method(const Callable& method, const Arguments& arguments, Workspace& work) {
  if (!arguments.named.empty()) reject("loop.{} takes no named arguments", method.name);
  LoopState& loop = method.self.as_loop();
  const auto& given = arguments.positional;
  if (method.name == "cycle") {
    if (given.empty()) reject("loop.cycle needs values to cycle through");
    return given[loop.index0 % given.size()];
  }
  const Value now = work.tuple(given), before = Value::tuple(&loop.last_changed);
  const bool changed = !std::exchange(loop.changed_before, true) || !equal(now, before, work);
  loop.last_changed = now.as_list();
  return Value::boolean(changed);
}

}  // namespace

Value call_method(const Callable& method, const Arguments& arguments, Workspace& work) {
  switch (method.self.kind()) {
    case Kind::string:
      return call_string_method(method, arguments, work);
    case Kind::dict:
      return call_dict_method(method, arguments, work);
    case Kind::loop:
      return call_loop_method(method, arguments, work);
    default:
      return call_list_method(method, arguments, work);
  }
}

}  // namespace trireme::jinja
