#include "trainer/jinja/values.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "trainer/jinja/operators.h"

namespace trireme::jinja {

namespace {

// What the inputs of a rendering, or lists that a template nests, may be nested to.
constexpr int kMaxDepth = 200;

}  // namespace

Value Value::real(double d) {
  Value value(Kind::real);
  value.real_ = d;
  return value;
}

Value Value::string(std::string_view s, bool safe) {
  Value value = text(Kind::string, s);
  value.safe_ = safe;
  return value;
}

Value Value::text(Kind kind, std::string_view s) {
  Value value(kind);
  value.chars_ = s.data();
  value.size_ = s.size();
  return value;
}

Value Value::number(Kind kind, int64_t i) {
  Value value(kind);
  value.integer_ = i;
  return value;
}

Value Value::object(Kind kind, const void* o) {
  Value value(kind);
  value.object_ = o;
  return value;
}

size_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  return (distance - 1) / stride + 1;
}

bool LoopState::has(size_t index) {
  Value item;
  while (feed && items.size() <= index) {
    if (feed->next(&item)) {
      items.push_back(item);
    } else {
      feed = nullptr;
    }
  }
  return index < items.size();
}

size_t LoopState::length() {
  while (feed) has(items.size());
  return items.size();
}

void Workspace::spend(size_t steps) {
  if (steps > static_cast<size_t>(kMaxSteps) || (steps_ += static_cast<int64_t>(steps)) > kMaxSteps)
    reject("the template does not come to an end: more than {} steps", kMaxSteps);
}

void* Workspace::allocate(size_t bytes, size_t alignment) {
  if (bytes > kMaxBytes || (bytes_ += bytes) > kMaxBytes)
    reject("the template uses more than {} MB of memory", kMaxBytes >> 20);
  spend(1 + bytes / 256);
  return memory_.allocate(bytes, alignment);
}

Value Workspace::string(std::string_view s, bool safe) {
  if (s.empty()) return Value::string({}, safe);
  auto* chars = static_cast<char*>(allocate(s.size(), 1));
  std::memcpy(chars, s.data(), s.size());
  return Value::string({chars, s.size()}, safe);
}

Value Workspace::undefined(std::string_view why) {
  return Value::undefined(string(why).as_string());
}

LoopState* Workspace::loop(const List& items, LoopFeed* feed) {
  spend(items.size / 8);
  return make(LoopState{std::pmr::vector<Value>(items.begin(), items.end(), &memory_), feed, 0, {}, false});
}

std::span<Value> Workspace::slots(size_t count) {
  if (count == 0) return {};
  auto* values = static_cast<Value*>(allocate(count * sizeof(Value), alignof(Value)));
  std::uninitialized_fill_n(values, count, Value());
  return {values, count};
}

List Workspace::items(std::span<const Value> values) {
  const auto copy = slots(values.size());
  std::copy(values.begin(), values.end(), copy.begin());
  return {copy.data(), copy.size()};
}

Value Workspace::dict(std::span<const Entry> entries) {
  Entry* copy = nullptr;
  if (!entries.empty()) {
    copy = static_cast<Entry*>(allocate(entries.size_bytes(), alignof(Entry)));
    std::uninitialized_copy(entries.begin(), entries.end(), copy);
  }
  return Value::dict(make(Dict{copy, entries.size()}));
}

Value Workspace::from_json(const Json& json, int depth) {
  if (depth > kMaxDepth) reject("the input is nested more than {} deep", kMaxDepth);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        reject("the input has the integer {}, which does not fit 64 bits", number);
      return Value::integer(static_cast<int64_t>(number));
    }
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string:
      return Value::string(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      const auto values = slots(json.size());
      for (size_t i = 0; i < values.size(); ++i) values[i] = from_json(json[i], depth + 1);
      return Value::list(make(List{values.data(), values.size()}));
    }
    case Json::value_t::object: {
      std::vector<Entry> entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items())
        entries.push_back({Value::string(key), from_json(value, depth + 1)});
      return dict(entries);
    }
    default:
      return Value::none();
  }
}

const Value* find(std::span<const Entry> entries, const Value& key, Workspace& work) {
  work.spend(entries.size() / 8);
  for (const Entry& entry : entries) {
    if (entry.key.is(Kind::string) && key.is(Kind::string)) {
      if (entry.key.as_string() == key.as_string()) return &entry.value;
    } else if (equal(entry.key, key, work)) {
      return &entry.value;
    }
  }
  return nullptr;
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::string:
      return !value.as_string().empty();
    case Kind::list:
    case Kind::tuple:
      return value.as_list().size != 0;
    case Kind::dict:
      return value.as_dict().size != 0;
    case Kind::range:
      return value.as_range().size() != 0;
    case Kind::view:
      return value.as_view().items.size != 0;
    case Kind::iterator:
    case Kind::space:
    case Kind::callable:
      return true;
    case Kind::loop:
      return value.as_loop().length() != 0;
  }
  return false;
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
      return value.as_view().name;
    case Kind::iterator:
      return "generator";
    case Kind::space:
      return "Namespace";
    case Kind::loop:
      return "LoopContext";
    case Kind::callable:
      return "function";
  }
  return "?";
}

}  // namespace trireme::jinja
