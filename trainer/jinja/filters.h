// The filters: value | name(arguments).
#pragma once

#include <string>
#include <string_view>

#include "trainer/jinja/values.h"

namespace trireme::jinja {

bool is_filter(std::string_view name);
/// What to say of a name that is none.
std::string unknown_filter(std::string_view name);
/// Throws TemplateError.
Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Workspace& work);

}  // namespace trireme::jinja
