// value.name and value[key], in the order in which Jinja's sandbox looks, and the methods found there.
#pragma once

#include <string_view>

#include "trainer/jinja/values.h"

namespace trireme::jinja {

/// A method or attribute of the type, else the item of that name, else undefined.
Value get_attribute(const Value& value, std::string_view name, Workspace& work);
/// The item, else, for text, the attribute of that name, else undefined.
Value get_item(const Value& value, const Value& key, Workspace& work);
/// "a.b.0" of a value: what sort, map and selectattr look up. An integer is an index. What is undefined on
/// the way becomes `standard`, unless that is missing.
Value get_path(const Value& value, const Value& path, Workspace& work, const Value& standard = {});

Value call_method(const Callable& method, const Arguments& arguments, Workspace& work);

/// text.replace(old, replacement, count), where a negative count is all.
std::string replace_text(std::string_view text, std::string_view old, std::string_view replacement,
                         int64_t count);

// By type, for call_method and get_attribute.
enum class Support : uint8_t { none, yes, refused };  // refused: Python has it, this part of Jinja does not
Support string_method_support(std::string_view name);
Value call_string_method(const Callable& method, const Arguments& arguments, Workspace& work);

}  // namespace trireme::jinja
