#include "trainer/data/arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/base/counter_random.h"

namespace trireme::data {
namespace {

constexpr int64_t kMaxOperand = 999;
constexpr int64_t kTemplates = 8;
constexpr int64_t kMaxTrainProblems = 200'000;  // wide ranges of operands get fewer sentences per pair

// {N} a name, {T} things, {A} and {B} the left and right operand.
constexpr std::array<const char*, kTemplates> kSums{
    "{N} has {A} {T} and gets {B} more.", "{N} finds {A} {T}, then {B} more.",
    "{A} {T} plus {B} {T}: how many?",    "{N} buys {A} {T}, later {B} more.",
    "To {A} {T} {N} adds {B}.",           "{N} had {A} {T} and won {B}. Now?",
    "A box of {A} {T} gains {B}.",        "{N} and I hold {A} and {B} {T}."};
constexpr std::array<const char*, kTemplates> kDifferences{
    "{N} has {A} {T} and loses {B}.",  "{N} had {A} {T}, then ate {B}.",   "Of {A} {T}, {B} are gone. Left?",
    "From {A} {T} {N} takes {B}.",     "{N} has {A} {T}, gives away {B}.", "A box of {A} {T} drops {B}.",
    "{A} {T} less {B} {T}: how many?", "{N} owned {A} {T} and sold {B}."};
constexpr std::array<const char*, 10> kNames{"Tom", "Ann", "Mia", "Ben",  "Leo",
                                             "Eva", "Sam", "Ida", "Nora", "Paul"};
constexpr std::array<const char*, 10> kThings{"pens", "cups", "eggs", "nuts",  "figs",
                                              "hats", "keys", "toys", "coins", "shells"};

enum Stream : uint64_t { kPairOrder = 1, kTrainText, kValText, kSwap, kSlip };

using Pair = std::pair<int64_t, int64_t>;  // larger operand first

// All unordered pairs, in an order that the seed chooses.
std::vector<Pair> shuffled_pairs(const ArithmeticConfig& config, uint64_t seed) {
  std::vector<std::pair<uint64_t, Pair>> keyed;
  for (int64_t low = config.min_operand; low <= config.max_operand; ++low)
    for (int64_t high = low; high <= config.max_operand; ++high) {
      const auto counter = static_cast<uint64_t>(low * (kMaxOperand + 1) + high);
      keyed.push_back({random_bits(seed, kPairOrder, counter), {high, low}});
    }
  std::sort(keyed.begin(), keyed.end());
  std::vector<Pair> pairs;
  pairs.reserve(keyed.size());
  for (const auto& [key, pair] : keyed) pairs.push_back(pair);
  return pairs;
}

int64_t num_pairs(const ArithmeticConfig& config) {
  const int64_t n = config.max_operand - config.min_operand + 1;
  return n * (n + 1) / 2;
}

int64_t num_held_out(const ArithmeticConfig& config) {
  const auto wanted = std::llround(config.held_out_fraction * static_cast<double>(num_pairs(config)));
  return std::clamp<int64_t>(wanted, 1, num_pairs(config) - 1);
}

Problem problem_of(const Expression& expression, std::string prompt, size_t index) {
  Problem problem;
  problem.index = static_cast<int64_t>(index);
  problem.data_source = "arithmetic";
  problem.prompt = std::move(prompt);
  problem.answer = std::to_string(expression.value());
  problem.response = arithmetic_format::response(expression);
  problem.rejected = arithmetic_format::wrong_response(expression, random_bits(index, kSlip, 0));
  problem.where = fmt::format("arithmetic:{}", index + 1);
  return problem;
}

Expression expression_of(const Pair& pair, char operation, bool swapped) {
  if (operation == '+' && swapped) return {pair.second, pair.first, '+'};
  return {pair.first, pair.second, operation};
}

// One problem per pair and operation: `round` numbers such passes, and fixes the template. Neighbouring
// pairs differ in template, so that the first problems of a list already show all of them.
void append_round(std::vector<Problem>& out, const Pair* begin, const Pair* end, int64_t round, uint64_t seed,
                  Stream stream, size_t limit) {
  for (const Pair* pair = begin; pair != end; ++pair)
    for (const char operation : {'+', '-'}) {
      if (out.size() >= limit) return;
      const uint64_t counter = out.size();
      const auto shift = static_cast<int64_t>(pair - begin);
      // Each order of a sum's operands comes in every other round.
      const bool swapped =
          ((random_bits(seed, kSwap, static_cast<uint64_t>(shift)) + static_cast<uint64_t>(round)) & 1) != 0;
      const Expression expression = expression_of(*pair, operation, swapped);
      out.push_back(problem_of(expression,
                               arithmetic_format::prompt(expression, (round + shift) % kTemplates,
                                                         random_bits(seed, stream, counter)),
                               out.size()));
    }
}

}  // namespace

namespace arithmetic_format {

int64_t num_templates() {
  return kTemplates;
}

std::string prompt(const Expression& expression, int64_t template_index, uint64_t choice) {
  const auto& templates = expression.operation == '+' ? kSums : kDifferences;
  std::string text = "<|im_start|>";
  for (const char* at = templates[static_cast<size_t>(template_index)]; *at != '\0'; ++at) {
    if (*at != '{') {
      text += *at;
      continue;
    }
    switch (at[1]) {
      case 'N':
        text += kNames[choice % kNames.size()];
        break;
      case 'T':
        text += kThings[choice / kNames.size() % kThings.size()];
        break;
      case 'A':
        text += std::to_string(expression.left);
        break;
      default:
        text += std::to_string(expression.right);
        break;
    }
    at += 2;
  }
  return text + "<|im_end|>";
}

std::string bare_prompt(const Expression& expression) {
  return fmt::format("<|im_start|>{}{}{}<|im_end|>", expression.left, expression.operation, expression.right);
}

namespace {

// As on paper: whether there is a carry or borrow, the units digit, the tens.
struct Working {
  int64_t carry = 0, units = 0, tens = 0;
};

Working working_of(const Expression& expression) {
  const int64_t left = expression.left, right = expression.right;
  const bool sum = expression.operation == '+';
  const int64_t units = sum ? left % 10 + right % 10 : left % 10 - right % 10;
  const int64_t carry = units > 9 || units < 0 ? 1 : 0;
  return {carry, (units + 10) % 10, sum ? left / 10 + right / 10 + carry : left / 10 - right / 10 - carry};
}

std::string written(const Expression& expression, const Working& working) {
  return fmt::format("{}{}{}:{}{},{}={}", expression.left, expression.operation, expression.right,
                     working.carry, working.units, working.tens, 10 * working.tens + working.units);
}

}  // namespace

std::string response(const Expression& expression) {
  return written(expression, working_of(expression));
}

std::string wrong_response(const Expression& expression, uint64_t choice) {
  Working working = working_of(expression);
  const bool up = (choice & 1) != 0;
  if ((choice & 2) != 0)
    working.units = (working.units + (up ? 1 : 9)) % 10;
  else
    working.tens += up || working.tens == 0 ? 1 : -1;
  return written(expression, working);
}

}  // namespace arithmetic_format

void check_arithmetic(const ArithmeticConfig& config, Mistakes& mistakes) {
  const auto add = [&](const char* key, std::string what) {
    mistakes.add(std::string("data.arithmetic.") + key, std::move(what));
  };
  const bool low_fits = config.min_operand >= 0 && config.min_operand <= kMaxOperand;
  const bool high_fits = config.max_operand >= 0 && config.max_operand <= kMaxOperand;
  if (!low_fits) add("min_operand", fmt::format("{} is not in 0..{}", config.min_operand, kMaxOperand));
  if (!high_fits) add("max_operand", fmt::format("{} is not in 0..{}", config.max_operand, kMaxOperand));
  if (!(config.held_out_fraction > 0 && config.held_out_fraction < 1))
    add("held_out_fraction", fmt::format("{} is not between 0 and 1", config.held_out_fraction));
  if (config.num_val < 1) add("num_val", fmt::format("{} is not a positive number", config.num_val));
  if (!low_fits || !high_fits) return;
  if (config.max_operand <= config.min_operand) {
    add("max_operand",
        fmt::format("{} is not above min_operand = {}", config.max_operand, config.min_operand));
    return;
  }
  const int64_t most = num_held_out(config) * 2 * kTemplates;
  if (config.num_val > most)
    add("num_val",
        fmt::format("{} held-out problems were asked for, but {} held-out pairs of operands make {} at "
                    "most; raise held_out_fraction or widen the range of operands",
                    config.num_val, num_held_out(config), most));
}

ProblemSet make_arithmetic(const ArithmeticConfig& config, uint64_t seed) {
  Mistakes mistakes;
  check_arithmetic(config, mistakes);
  mistakes.throw_if_any("the arithmetic task cannot be made:");

  const std::vector<Pair> pairs = shuffled_pairs(config, seed);
  const Pair* const held = pairs.data();
  const Pair* const train = held + num_held_out(config);
  const Pair* const end = held + pairs.size();

  ProblemSet set;
  const int64_t rounds = std::clamp<int64_t>(kMaxTrainProblems / (2 * (end - train)), 1, kTemplates);
  for (int64_t round = 0; round < rounds; ++round)
    append_round(set.train, train, end, round, seed, kTrainText, SIZE_MAX);
  const auto num_val = static_cast<size_t>(config.num_val);
  for (int64_t round = 0; set.val.size() < num_val; ++round)
    append_round(set.val, held, train, round, seed, kValText, num_val);
  // Twice for a difference, which has one order of its operands where a sum has two.
  for (const bool swapped : {false, true})
    for (const Pair* pair = train; pair != end; ++pair)
      for (const char operation : {'+', '-'}) {
        const Expression expression = expression_of(*pair, operation, swapped);
        set.bare.push_back(
            problem_of(expression, arithmetic_format::bare_prompt(expression), set.bare.size()));
      }
  return set;
}

}  // namespace trireme::data
