// A template, parsed once and rendered as often as wanted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/jinja/syntax.h"

namespace trireme::jinja {

/// A parsed template. Immutable; any thread.
class Program {
 public:
  /// `where` stands before lines in messages. Throws invalid_config.
  Program(const std::string& source, std::string where);

  const std::vector<StatementPtr>& body() const { return body_; }
  const Scope& scope() const { return scope_; }
  const std::string& where() const { return where_; }
  /// Whether the template's source has `word`.
  bool mentions(std::string_view word) const { return source_.find(word) != std::string::npos; }

 private:
  std::string source_, where_;
  Workspace constants_;
  std::vector<StatementPtr> body_;
  Scope scope_;
};

}  // namespace trireme::jinja
