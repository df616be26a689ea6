// Arithmetic told in words: sums and differences of two numbers, asked in a sentence. Everything follows
// from the configuration and the seed; the answer is exact, so a reward can verify it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/error.h"
#include "trainer/data/data_config.h"
#include "trainer/data/problem.h"

namespace trireme::data {

/// What the task is: which numbers go in, in which order they are asked for.
struct Expression {
  int64_t left = 0, right = 0;
  char operation = '+';  // '+' or '-'; for '-' left >= right
  int64_t value() const { return operation == '+' ? left + right : left - right; }
};

/// The whole format of the task, in one place.
namespace arithmetic_format {
/// "<|im_start|>Tom has 47 pens and gets 25 more.<|im_end|>"; `choice` picks name and thing.
std::string prompt(const Expression&, int64_t template_index, uint64_t choice);
/// "<|im_start|>47+25<|im_end|>"
std::string bare_prompt(const Expression&);
/// "47+25:12,7=72": the expression, then worked as on paper (carry or borrow and the units digit; the tens),
/// then the value. What a model should write after either prompt; its last number is the answer.
std::string response(const Expression&);
/// The same with one slip, chosen by `choice`, in the units digit or in the tens, and the value that follows.
std::string wrong_response(const Expression&, uint64_t choice);
/// Templates per operation.
int64_t num_templates();
}  // namespace arithmetic_format

/// Lists what is wrong with the numbers in `config`; keys are named "data.arithmetic.KEY".
void check_arithmetic(const ArithmeticConfig& config, Mistakes& mistakes);

/// Training and held-out problems share no unordered pair of operands, whatever the operation. Both
/// operations are equally frequent in train, val and bare. val: config.num_val problems, spread evenly
/// over the held-out pairs. Throws invalid_config with every mistake of check_arithmetic.
ProblemSet make_arithmetic(const ArithmeticConfig& config, uint64_t seed);

}  // namespace trireme::data
