// Values put into a text at marked places: "%s and %d" % values, "{} and {name}".format(...).
#pragma once

#include <string>
#include <string_view>

#include "trainer/jinja/values.h"

namespace trireme::jinja {

/// text % value: %s, %r, %d, %i, %% and %(name)s, without widths or flags. Throws TemplateError.
std::string format_percent(std::string_view text, const Value& value, Workspace& work);

/// text.format(...): {}, {0} and {name}, without conversions, formats or lookups. Throws TemplateError.
std::string format_braces(std::string_view text, const Arguments& arguments, Workspace& work);

}  // namespace trireme::jinja
