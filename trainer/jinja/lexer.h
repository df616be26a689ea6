// A template's source to tokens, as Jinja reads it with trim_blocks and lstrip_blocks: white space around
// tags is gone, comments and raw blocks are resolved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::jinja {

struct Token {
  enum class Kind : uint8_t {
    data,            // text between tags
    variable_begin,  // {{
    variable_end,
    block_begin,  // {%
    block_end,
    name,
    string,   // text: unescaped
    integer,  // text: digits as written
    real,
    sign,  // text: one of the operators and punctuation marks
    end,
  };
  Kind kind;
  int line;
  std::string text;

  bool is_sign(std::string_view sign) const { return kind == Kind::sign && text == sign; }
  bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
};

/// Thrown for what cannot be read.
struct SyntaxError {
  int line;
  std::string message;
};

/// Ends with a token of kind `end`. Throws SyntaxError.
std::vector<Token> read_tokens(std::string_view source);

}  // namespace trireme::jinja
