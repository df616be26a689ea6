// What kind of thing an answer is: a value, or values put together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/answers/expression.h"
#include "trainer/answers/notation.h"

namespace trireme::answers {

/// An interval's end: closed where the end itself belongs to it.
struct Interval {
  Expression low, high;
  bool low_closed = false, high_closed = false;
};

struct Structure {
  enum class Kind {
    value,      // expression
    words,      // text, in lower case, without spaces
    list,       // parts, in any order: "1, 2", "x = 1 or x = 2", "\pm 1"
    set,        // parts, in any order, each once: \{1, 2\}
    tuple,      // parts between open and close: (1, 2), [1, 2)
    matrix,     // parts, in rows of `columns`
    equation,   // left = right
    intervals,  // of the variable, which may be unknown ("")
  };
  Kind kind = Kind::words;
  Expression expression;  // value; equation: left - right
  std::string text;       // words
  std::string unit;       // of a value
  std::vector<Structure> parts;
  char open = 0, close = 0;
  size_t columns = 0;
  std::string variable;              // of intervals; of an equation: what stands alone on the left, or f(x)
  std::optional<Expression> solved;  // of such an equation: its right side
  std::vector<Interval> intervals;
};

/// Never fails: what is not understood is words.
Structure structure_of(std::string_view answer);

/// Whether the two mean the same.
bool same(const Structure& response, const Structure& truth);

}  // namespace trireme::answers
