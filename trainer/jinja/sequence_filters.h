// The filters that work on items rather than on text, and what the two kinds share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/jinja/arguments.h"
#include "trainer/jinja/values.h"

namespace trireme::jinja {

struct FilterCall {
  const Value& value;
  const Arguments& arguments;
  Workspace& work;
  std::string_view name;

  std::vector<Value> bound(std::initializer_list<std::string_view> parameters, size_t required = 0) const {
    return bind(name, arguments, parameters, required);
  }
};

using Filter = Value (*)(const FilterCall&);

/// Null if there is none.
Filter find_sequence_filter(std::string_view name);
std::vector<std::string> sequence_filter_names();

}  // namespace trireme::jinja
