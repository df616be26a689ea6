// What Python's operators do with values: arithmetic, order, membership, slices. Throws TemplateError.
#pragma once

#include <optional>
#include <vector>

#include "trainer/jinja/values.h"

namespace trireme::jinja {

enum class BinaryOperator : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparison : uint8_t { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };

Value apply(BinaryOperator op, const Value& left, const Value& right, Workspace& work);
Value negate(const Value& value);
Value plus(const Value& value);

bool equal(const Value& left, const Value& right, Workspace& work);
/// Throws where the two have no order.
bool less(const Value& left, const Value& right, Workspace& work);
bool compare(Comparison op, const Value& left, const Value& right, Workspace& work);
bool contains(const Value& container, const Value& item, Workspace& work);

/// What a for loop walks over: items, keys, characters. An iterator is used up.
List iterate(const Value& value, Workspace& work);
bool is_iterable(const Value& value);
/// Absent where Python's len() fails.
std::optional<size_t> length_of(const Value& value);
bool is_hashable(const Value& value);

/// value[start:stop:step], each of them none if it was left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Workspace& work);

}  // namespace trireme::jinja
