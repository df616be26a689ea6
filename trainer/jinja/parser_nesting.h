// How deep templates may nest: enough for any that a person wrote, little enough for the stack.
#pragma once

#include "trainer/jinja/parser.h"

namespace trireme::jinja {

constexpr int kMaxNesting = 200;
constexpr int kMaxExpressionDepth = 200;

struct Parser::Nesting {
  explicit Nesting(Parser& parser) : parser(parser) {
    if (++parser.nesting_ > kMaxNesting) parser.fail(fmt::format("nested more than {} deep", kMaxNesting));
  }
  ~Nesting() { --parser.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  Parser& parser;
};

}  // namespace trireme::jinja
