// The functions that every template sees.
#include <ctime>

#include "trainer/jinja/arguments.h"
#include "trainer/jinja/interpreter.h"
#include "trainer/jinja/python_text.h"

namespace trireme::jinja {

namespace {

constexpr size_t kMaxRange = 100'000;

Value range(const Arguments& arguments, Workspace& work) {
  if (!arguments.named.empty()) reject("range takes no named arguments");
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3) reject("range takes one to three arguments");
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i)
    numbers[given.size() == 1 ? 1 : i] = need_integer("range", given[i]);
  if (numbers[2] == 0) reject("the step of a range cannot be zero");
  const Range range{numbers[0], numbers[1], numbers[2]};
  if (range.size() > kMaxRange) reject("a range of more than {} numbers", kMaxRange);
  return Value::range(work.make(range));
}

// dict(mapping or pairs, name=value, ...)
std::vector<Entry> entries_of(const char* what, const Arguments& arguments, Workspace& work) {
  if (arguments.positional.size() > 1) reject("{} takes one mapping, then named arguments", what);
  std::vector<Entry> entries;
  const auto set = [&](const Value& key, const Value& value) {
    if (!is_hashable(key)) reject("a {} cannot be a key", type_name(key));
    if (const Value* found = find(entries, key, work)) {
      *const_cast<Value*>(found) = value;
    } else {
      entries.push_back({key, value});
    }
  };
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::dict)) {
    for (const Entry& entry : arguments.positional[0].as_dict()) entries.push_back(entry);
  } else if (!arguments.positional.empty()) {
    for (const Value& item : iterate(arguments.positional[0], work)) {
      const List pair = iterate(item, work);
      if (pair.size != 2) reject("{} needs a mapping or pairs", what);
      set(pair.items[0], pair.items[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) set(Value::string(name), value);
  return entries;
}

Value make_space(const Arguments& arguments, Workspace& work) {
  const Value space = work.space();
  for (const Entry& entry : entries_of("namespace", arguments, work)) {
    if (entry.key.is(Kind::string) && entry.key.as_string().substr(0, 1) == "_")
      reject("a namespace holds no names that begin with an underscore");
    if (!entry.key.is(Kind::string)) reject("a namespace holds names only");
    space.as_space().entries.push_back({work.string(entry.key.as_string()), entry.value});
  }
  return space;
}

Value strftime_now(const Arguments& arguments, Workspace& work) {
  const std::string format(need_text("strftime_now", bind("strftime_now", arguments, {"format"}, 1)[0]));
  if (format.size() > 200) reject("strftime_now: the format is too long");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[4096];
  const size_t bytes = std::strftime(text, sizeof text, format.c_str(), &local);
  return work.string({text, bytes});
}

constexpr std::string_view kFunctions[] = {"range",        "dict",   "namespace", "raise_exception",
                                           "strftime_now", "cycler", "joiner",    "lipsum"};

}  // namespace

std::vector<Entry> template_functions(Workspace& work) {
  std::vector<Entry> functions;
  for (const std::string_view name : kFunctions) {
    const Callable function{Callable::What::function, name, {}, nullptr, nullptr};
    functions.push_back({Value::string(name), Value::callable(work.make(function))});
  }
  return functions;
}

Value call_function(std::string_view name, const Arguments& arguments, Workspace& work) {
  if (name == "range") return range(arguments, work);
  if (name == "dict") return work.dict(entries_of("dict", arguments, work));
  if (name == "namespace") return make_space(arguments, work);
  if (name == "strftime_now") return strftime_now(arguments, work);
  if (name == "raise_exception")
    reject("the template refuses this conversation: {}",
           to_text(bind("raise_exception", arguments, {"message"}, 1)[0], work));
  reject("the function '{}' is outside the part of Jinja that is supported", name);
}

}  // namespace trireme::jinja
