// Values as text: what Python's str(), repr() and json.dumps() write.
#pragma once

#include <string>
#include <string_view>

#include "trainer/jinja/values.h"

namespace trireme::jinja {

/// Appends str(value): nothing for undefined. Throws TemplateError for what Python would print an address of.
void append_text(std::string& out, const Value& value, Workspace& work);
void append_repr(std::string& out, const Value& value, Workspace& work);
std::string to_text(const Value& value, Workspace& work);
/// to_text without a copy where the value is a string.
std::string_view view_text(const Value& value, std::string& storage, Workspace& work);
/// The shortest digits that read back as the same number, as Python writes them.
std::string real_text(double value);

struct JsonStyle {
  bool ascii = false, sort_keys = false, pretty = false;
  std::string indent;  // of one level, where pretty
  std::string between = ", ", after_key = ": ";
};
std::string to_json(const Value& value, const JsonStyle& style, Workspace& work);

/// The five characters that mean something in HTML, as markupsafe escapes them.
std::string escape_html(std::string_view text);

}  // namespace trireme::jinja
