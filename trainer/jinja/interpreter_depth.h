// How deep a rendering may be within itself: macros that call themselves must end before the stack does.
#pragma once

#include "trainer/jinja/interpreter.h"

namespace trireme::jinja {

struct Interpreter::Depth {
  static constexpr int kMax = 1000;
  explicit Depth(Interpreter& interpreter) : interpreter(interpreter) {
    if (++interpreter.depth_ > kMax) {
      --interpreter.depth_;
      reject("the template is more than {} deep within itself: a macro that calls itself?", kMax);
    }
  }
  ~Depth() { --interpreter.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  Interpreter& interpreter;
};

}  // namespace trireme::jinja
