// The tests: value is name(arguments).
#pragma once

#include <string>
#include <string_view>

#include "trainer/jinja/values.h"

namespace trireme::jinja {

bool is_test(std::string_view name);
/// What to say of a name that is none.
std::string unknown_test(std::string_view name);
/// Throws TemplateError.
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments, Workspace& work);

}  // namespace trireme::jinja
