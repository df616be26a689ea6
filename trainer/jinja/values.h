// The values of a template: what Python's would be, immutable but for namespaces and iterators, in memory
// that a rendering takes from its Workspace and gives back as a whole. A hostile template runs out of steps
// or of bytes and fails; it cannot grow without bound.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::jinja {

using Json = nlohmann::ordered_json;  // objects keep the order in which they came

/// What a template does that has no meaning; whoever runs it adds file and line.
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(fmt::format(format, std::forward<Args>(args)...));
}

struct List;
struct Dict;
struct Range;
struct View;
struct Iterator;
struct Space;
struct LoopState;
struct Callable;

enum class Kind : uint8_t {
  missing,    // a variable that was not set: never seen by an operation
  undefined,  // prints as nothing; most operations on it fail with its text
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  range,
  view,      // dict.keys(), .values(), .items()
  iterator,  // what map, select, items, ... return: can be walked once
  space,     // namespace()
  loop,
  callable,  // macros, methods, functions
};

class Value {
 public:
  Value() : kind_(Kind::missing), integer_(0) {}

  static Value undefined(std::string_view why) { return text(Kind::undefined, why); }
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool b) { return number(Kind::boolean, b); }
  static Value integer(int64_t i) { return number(Kind::integer, i); }
  static Value real(double d);
  /// The bytes must outlive the value. `safe`: from the filter of that name; what is joined to it is escaped.
  static Value string(std::string_view s, bool safe = false);
  static Value list(const List* l) { return object(Kind::list, l); }
  static Value tuple(const List* l) { return object(Kind::tuple, l); }
  static Value dict(const Dict* d) { return object(Kind::dict, d); }
  static Value range(const Range* r) { return object(Kind::range, r); }
  static Value view(const View* v) { return object(Kind::view, v); }
  static Value iterator(const Iterator* i) { return object(Kind::iterator, i); }
  static Value space(const Space* s) { return object(Kind::space, s); }
  static Value loop(const LoopState* l) { return object(Kind::loop, l); }
  static Value callable(const Callable* c) { return object(Kind::callable, c); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool safe() const { return safe_; }
  /// True for integers and booleans, which count as 0 and 1.
  bool is_whole() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_whole() || kind_ == Kind::real; }

  int64_t as_integer() const { return integer_; }  // of whole numbers
  double as_real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  std::string_view as_string() const { return {chars_, size_}; }              // of strings; of undefined: why
  const List& as_list() const { return *static_cast<const List*>(object_); }  // of lists and tuples
  const Dict& as_dict() const { return *static_cast<const Dict*>(object_); }
  const Range& as_range() const { return *static_cast<const Range*>(object_); }
  const View& as_view() const { return *static_cast<const View*>(object_); }
  Iterator& as_iterator() const { return *static_cast<Iterator*>(const_cast<void*>(object_)); }
  Space& as_space() const { return *static_cast<Space*>(const_cast<void*>(object_)); }
  LoopState& as_loop() const { return *static_cast<LoopState*>(const_cast<void*>(object_)); }
  const Callable& as_callable() const { return *static_cast<const Callable*>(object_); }
  const void* identity() const { return object_; }

 private:
  explicit Value(Kind kind) : kind_(kind), integer_(0) {}
  static Value text(Kind kind, std::string_view s);
  static Value number(Kind kind, int64_t i);
  static Value object(Kind kind, const void* o);

  Kind kind_;
  bool safe_ = false;
  union {
    int64_t integer_;
    double real_;
    const char* chars_;
    const void* object_;
  };
  size_t size_ = 0;
};

struct List {
  const Value* items = nullptr;
  size_t size = 0;
  const Value* begin() const { return items; }
  const Value* end() const { return items + size; }
};

struct Entry {
  Value key, value;
};

struct Dict {
  const Entry* entries = nullptr;
  size_t size = 0;
  const Entry* begin() const { return entries; }
  const Entry* end() const { return entries + size; }
};

struct Range {
  int64_t start, stop, step;
  size_t size() const;
  int64_t at(size_t i) const { return start + static_cast<int64_t>(i) * step; }
};

struct View {
  const char* name;  // as Python prints it
  List items;
};

struct Iterator {
  List items;
  size_t next = 0;
  List rest() const { return {items.items + next, items.size - next}; }
};

struct Space {
  std::pmr::vector<Entry> entries;
};

/// Where a loop with a condition gets its items, one at a time: what the body does may change the condition.
class LoopFeed {
 public:
  virtual bool next(Value* item) = 0;

 protected:
  ~LoopFeed() = default;
};

struct LoopState {
  std::pmr::vector<Value> items;  // those that are known
  LoopFeed* feed;                 // null: all are known
  size_t index0 = 0;
  List last_changed;
  bool changed_before = false;

  /// Whether there is an item `index`, fetching what is needed.
  bool has(size_t index);
  size_t length();
};

struct Statement;
struct Frame;

struct Callable {
  enum class What : uint8_t { macro, method, function };
  What what;
  std::string_view name;
  Value self;                        // of methods
  const Statement* macro = nullptr;  // of macros, with the frame that they see
  Frame* frame = nullptr;
};

/// Arguments of a call, in the order of their evaluation.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

/// The memory and the steps that one rendering (or one parsed template) may use. One thread.
class Workspace {
 public:
  static constexpr size_t kMaxBytes = size_t{128} << 20;
  static constexpr size_t kMaxOutputBytes = size_t{16} << 20;  // of one text
  static constexpr size_t kMaxItems = size_t{4} << 20;         // that a text is taken apart to
  static constexpr int64_t kMaxSteps = 20'000'000;             // about a second

  Workspace() : memory_(size_t{16} << 10) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Throws TemplateError when the steps are used up.
  void spend(size_t steps);
  /// What looking for `part` bytes in `whole` bytes may cost.
  void spend_search(size_t whole, size_t part) { spend(whole / 64 + whole * part / 4096); }
  /// Throws TemplateError where a text has too many parts.
  static void check_items(size_t count) {
    if (count > kMaxItems) reject("a text is taken apart to more than {} items", kMaxItems);
  }

  Value string(std::string_view s, bool safe = false);  // a copy
  Value undefined(std::string_view why);                // likewise
  List items(std::span<const Value> values);            // likewise
  Value list(std::span<const Value> values) { return Value::list(make(items(values))); }
  Value tuple(std::span<const Value> values) { return Value::tuple(make(items(values))); }
  Value iterator(std::span<const Value> values) { return Value::iterator(make(Iterator{items(values), 0})); }
  Value dict(std::span<const Entry> entries);
  Value space() { return Value::space(make(Space{std::pmr::vector<Entry>(&memory_)})); }
  /// Strings are not copied: `json` must outlive the value. Throws TemplateError for what no template can
  /// hold.
  Value from_json(const Json& json, int depth = 0);

  LoopState* loop(const List& items, LoopFeed* feed);

  std::span<Value> slots(size_t count);

  template <typename T>
  T* make(T value) {
    return new (allocate(sizeof(T), alignof(T))) T(std::move(value));
  }

 private:
  void* allocate(size_t bytes, size_t alignment);

  std::pmr::monotonic_buffer_resource memory_;
  size_t bytes_ = 0;
  int64_t steps_ = 0;
};

/// Null if there is none. Keys are equal as Python's are: 1, 1.0 and true are one key.
const Value* find(std::span<const Entry> entries, const Value& key, Workspace& work);
inline const Value* find(const Dict& dict, const Value& key, Workspace& work) {
  return find(std::span(dict.entries, dict.size), key, work);
}

bool truth(const Value& value);
/// Python's name of the value's type, for messages.
const char* type_name(const Value& value);

}  // namespace trireme::jinja
