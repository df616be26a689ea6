// Arguments of a call to the parameters of what is called.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "trainer/jinja/values.h"

namespace trireme::jinja {

/// One value per parameter, missing for those not given; the first `required` must be. Throws TemplateError.
inline std::vector<Value> bind(std::string_view what, const Arguments& arguments,
                               std::initializer_list<std::string_view> parameters, size_t required = 0) {
  if (arguments.positional.size() > parameters.size())
    reject("{} takes {} arguments, not {}", what, parameters.size(), arguments.positional.size());
  std::vector<Value> values = arguments.positional;
  values.resize(parameters.size());
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < parameters.size() && parameters.begin()[i] != name) ++i;
    if (i == parameters.size()) reject("{} has no argument '{}'", what, name);
    if (!values[i].is(Kind::missing)) reject("{} is given its argument '{}' twice", what, name);
    values[i] = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (values[i].is(Kind::missing)) reject("{} needs its argument '{}'", what, parameters.begin()[i]);
  return values;
}

inline std::string_view need_text(std::string_view what, const Value& value) {
  if (value.is(Kind::undefined)) reject("{}", value.as_string());
  if (!value.is(Kind::string)) reject("{} needs text, not a {}", what, type_name(value));
  return value.as_string();
}

inline int64_t need_integer(std::string_view what, const Value& value) {
  if (value.is(Kind::undefined)) reject("{}", value.as_string());
  if (!value.is_whole()) reject("{} needs an integer, not a {}", what, type_name(value));
  return value.as_integer();
}

}  // namespace trireme::jinja
