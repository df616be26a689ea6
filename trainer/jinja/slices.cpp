// value[start:stop:step], as Python slices.
#include <algorithm>
#include <string>

#include "trainer/jinja/operators.h"

namespace trireme::jinja {

namespace {

std::optional<int64_t> slice_bound(const Value& value) {
  if (value.is(Kind::none)) return {};
  if (!value.is_whole()) reject("a bound of a slice must be an integer, not a {}", type_name(value));
  return value.as_integer();
}

// Python's rule for the bounds of a slice of `size` items.
Range slice_range(int64_t size, const Value& start, const Value& stop, const Value& step) {
  const int64_t stride = slice_bound(step).value_or(1);
  if (stride == 0) reject("the step of a slice cannot be zero");
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, int64_t absent) {
    const auto given = slice_bound(value);
    if (!given) return absent;
    return *given < 0 ? (*given < -size ? low : std::max(*given + size, low)) : std::min(*given, high);
  };
  return {bound(start, stride > 0 ? low : high), bound(stop, stride > 0 ? high : low), stride};
}

}  // namespace

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Workspace& work) {
  if (value.is(Kind::undefined)) reject("{}", value.as_string());
  if (!value.is(Kind::string) && !value.is(Kind::list) && !value.is(Kind::tuple) && !value.is(Kind::range))
    reject("a {} cannot be sliced", type_name(value));
  const List items = iterate(value, work);
  const Range range = slice_range(static_cast<int64_t>(items.size), start, stop, step);
  const size_t count = range.size();
  if (value.is(Kind::string)) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += items.items[range.at(i)].as_string();
    return work.string(out, value.safe());
  }
  if (value.is(Kind::range)) {
    const Range& old = value.as_range();
    const auto at = [&](int64_t i) {
      int64_t distance = 0, number = 0;
      if (__builtin_mul_overflow(i, old.step, &distance) ||
          __builtin_add_overflow(old.start, distance, &number))
        reject("an integer does not fit 64 bits");
      return number;
    };
    int64_t stride = 0;
    if (__builtin_mul_overflow(old.step, range.step, &stride)) reject("an integer does not fit 64 bits");
    return Value::range(work.make(Range{at(range.start), at(range.stop), stride}));
  }
  const auto picked = work.slots(count);
  for (size_t i = 0; i < count; ++i) picked[i] = items.items[range.at(i)];
  const auto* list = work.make(List{picked.data(), picked.size()});
  return value.is(Kind::list) ? Value::list(list) : Value::tuple(list);
}

}  // namespace trireme::jinja
