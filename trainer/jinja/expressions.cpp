// The parser of expressions, loosest binding first.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/error.h"
#include "trainer/jinja/parser.h"
#include "trainer/jinja/parser_nesting.h"

namespace trireme::jinja {

ExpressionPtr Parser::make(Kind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExpressionPtr Parser::make(Kind kind, int line, ExpressionPtr a, ExpressionPtr b) const {
  auto node = make(kind, line);
  add(*node, std::move(a));
  if (b) add(*node, std::move(b));
  return node;
}

void Parser::add(Expression& node, ExpressionPtr child) const {
  if (child) node.depth = std::max(node.depth, child->depth + 1);
  if (node.depth > kMaxExpressionDepth)
    fail_at(node.line,
            fmt::format("an expression of more than {} parts within each other", kMaxExpressionDepth));
  node.children.push_back(std::move(child));
}

ExpressionPtr Parser::parse_tuple(bool conditional, std::string_view end, bool parentheses) {
  const int line = current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_sign(",");
    const auto kind = current().kind;
    if (kind == Token::Kind::variable_end || kind == Token::Kind::block_end || at_sign(")")) break;
    if (!end.empty() && at_name(end)) break;
    items.push_back(parse_expression(conditional));
    if (!at_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !parentheses) fail(fmt::format("expected an expression, got {}", describe(current())));
  auto tuple = make(Kind::tuple, line);
  for (auto& item : items) add(*tuple, std::move(item));
  return tuple;
}

ExpressionPtr Parser::parse_expression(bool conditional) {
  const Nesting nesting(*this);
  return conditional ? parse_conditional() : parse_or();
}

ExpressionPtr Parser::parse_conditional() {
  const int line = current().line;
  auto value = parse_or();
  while (at_name("if")) {
    take();
    auto node = make(Kind::conditional, line);
    add(*node, parse_or());
    add(*node, std::move(value));
    add(*node, skip_name("else") ? parse_expression() : nullptr);
    value = std::move(node);
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  auto left = parse_and();
  while (at_name("or")) {
    const int line = take().line;
    left = make(Kind::either, line, std::move(left), parse_and());
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  auto left = parse_not();
  while (at_name("and")) {
    const int line = take().line;
    left = make(Kind::both, line, std::move(left), parse_not());
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!at_name("not")) return parse_comparison();
  const Nesting nesting(*this);
  const int line = take().line;
  return make(Kind::negated, line, parse_not());
}

ExpressionPtr Parser::parse_comparison() {
  static constexpr std::pair<std::string_view, Comparison> kSigns[] = {
      {"==", Comparison::equal},      {"!=", Comparison::unequal}, {"<", Comparison::less},
      {"<=", Comparison::less_equal}, {">", Comparison::greater},  {">=", Comparison::greater_equal}};
  const int line = current().line;
  auto left = parse_sum();
  ExpressionPtr node;
  while (true) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](const auto& known) { return at_sign(known.first); });
    Comparison comparison;
    if (sign != std::end(kSigns)) {
      comparison = sign->second;
    } else if (at_name("in")) {
      comparison = Comparison::in;
    } else if (at_name("not") && ahead().is_name("in")) {
      comparison = Comparison::not_in;
      take();
    } else {
      break;
    }
    take();
    if (!node) node = make(Kind::comparison, line, std::move(left));
    node->comparisons.push_back(comparison);
    add(*node, parse_sum());
  }
  return node ? std::move(node) : std::move(left);
}

ExpressionPtr Parser::parse_sum() {
  auto left = parse_concatenation();
  while (at_sign("+") || at_sign("-")) {
    const Token sign = take();
    left = make(Kind::binary, sign.line, std::move(left), parse_concatenation());
    left->binary = sign.text == "+" ? BinaryOperator::add : BinaryOperator::subtract;
  }
  return left;
}

ExpressionPtr Parser::parse_concatenation() {
  auto first = parse_product();
  if (!at_sign("~")) return first;
  auto node = make(Kind::concatenation, current().line, std::move(first));
  while (skip_sign("~")) add(*node, parse_product());
  return node;
}

ExpressionPtr Parser::parse_product() {
  static constexpr std::pair<std::string_view, BinaryOperator> kSigns[] = {
      {"*", BinaryOperator::multiply},
      {"/", BinaryOperator::divide},
      {"//", BinaryOperator::floor_divide},
      {"%", BinaryOperator::modulo}};
  auto left = parse_power();
  while (true) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](const auto& known) { return at_sign(known.first); });
    if (sign == std::end(kSigns)) return left;
    const int line = take().line;
    left = make(Kind::binary, line, std::move(left), parse_power());
    left->binary = sign->second;
  }
}

ExpressionPtr Parser::parse_power() {
  auto left = parse_unary();
  while (at_sign("**")) {
    const int line = take().line;
    left = make(Kind::binary, line, std::move(left), parse_unary());
    left->binary = BinaryOperator::power;
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool filters) {
  const Nesting nesting(*this);
  ExpressionPtr node;
  if (at_sign("-") || at_sign("+")) {
    const Token sign = take();
    node = make(sign.text == "-" ? Kind::minus : Kind::plus, sign.line, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return filters ? parse_filters(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::parse_primary() {
  switch (current().kind) {
    case Token::Kind::name:
      return parse_name();
    case Token::Kind::string:
      return parse_string();
    case Token::Kind::integer:
    case Token::Kind::real:
      return parse_number();
    default:
      break;
  }
  if (at_sign("[")) return parse_list();
  if (at_sign("{")) return parse_dict();
  if (!skip_sign("(")) fail(fmt::format("unexpected {}", describe(current())));
  auto node = parse_tuple(true, {}, true);
  expect_sign(")");
  return node;
}

ExpressionPtr Parser::parse_name() {
  const Token token = take();
  auto node = make(Kind::constant, token.line);
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    node->constant = Value::boolean(token.text[0] == 't' || token.text[0] == 'T');
  } else if (token.text == "none" || token.text == "None") {
    node->constant = Value::none();
  } else {
    node->kind = Kind::name;
    node->name = token.text;
  }
  return node;
}

ExpressionPtr Parser::parse_string() {
  auto node = make(Kind::constant, current().line);
  std::string text;
  while (current().kind == Token::Kind::string) text += take().text;
  node->constant = constants_.string(text);
  return node;
}

ExpressionPtr Parser::parse_number() {
  const Token token = take();
  auto node = make(Kind::constant, token.line);
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == Token::Kind::real) {
    double value = 0;
    if (std::from_chars(begin, end, value).ec == std::errc::result_out_of_range)
      fail_at(token.line, fmt::format("the number {} is out of range", token.text));
    node->constant = Value::real(value);
    return node;
  }
  const char letter = token.text.size() > 1 ? static_cast<char>(token.text[1] | 32) : '\0';
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  int64_t value = 0;
  if (std::from_chars(begin + (base == 10 ? 0 : 2), end, value, base).ec != std::errc())
    fail_at(token.line, fmt::format("the integer {} does not fit 64 bits", token.text));
  node->constant = Value::integer(value);
  return node;
}

ExpressionPtr Parser::parse_list() {
  auto list = make(Kind::list, take().line);
  while (!at_sign("]")) {
    if (!list->children.empty()) expect_sign(",");
    if (at_sign("]")) break;
    add(*list, parse_expression());
  }
  take();
  return list;
}

ExpressionPtr Parser::parse_dict() {
  auto dict = make(Kind::dict, take().line);
  while (!at_sign("}")) {
    if (!dict->children.empty()) expect_sign(",");
    if (at_sign("}")) break;
    add(*dict, parse_expression());
    expect_sign(":");
    add(*dict, parse_expression());
  }
  take();
  return dict;
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (at_sign(".") || at_sign("[")) {
      node = parse_subscript(std::move(node));
    } else if (at_sign("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_filters(ExpressionPtr node) {
  while (true) {
    if (skip_sign("|")) {
      node = parse_filter(std::move(node));
    } else if (at_name("is")) {
      node = parse_test(std::move(node));
    } else if (at_sign("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr node) {
  const Token sign = take();
  if (sign.text == ".") {
    if (current().kind == Token::Kind::integer)
      return make(Kind::subscript, sign.line, std::move(node), parse_number());
    auto attribute = make(Kind::attribute, sign.line, std::move(node));
    attribute->name = expect_name().text;
    return attribute;
  }
  ExpressionPtr parts[3];
  bool is_slice = false;
  for (int i = 0; i < 3; ++i) {
    if (!at_sign(":") && !at_sign("]")) parts[i] = parse_expression();
    if (!at_sign(":") || i == 2) break;
    take();
    is_slice = true;
  }
  if (is_slice && at_sign(",")) fail("a slice within a tuple is not supported");
  if (!is_slice && (!parts[0] || at_sign(","))) {  // x[a, b] looks up a tuple
    auto tuple = make(Kind::tuple, sign.line);
    if (parts[0]) add(*tuple, std::move(parts[0]));
    while (skip_sign(",")) add(*tuple, parse_expression());
    parts[0] = std::move(tuple);
  }
  expect_sign("]");
  if (!is_slice) return make(Kind::subscript, sign.line, std::move(node), std::move(parts[0]));
  auto slice = make(Kind::slice, sign.line, std::move(node));
  for (auto& part : parts) add(*slice, std::move(part));
  return slice;
}

void Parser::parse_arguments(Expression& call) {
  expect_sign("(");
  bool first = true;
  while (!at_sign(")")) {
    if (!std::exchange(first, false)) {
      expect_sign(",");
      if (at_sign(")")) break;
    }
    if (at_sign("*") || at_sign("**")) {
      auto& more = at_sign("*") ? call.more_positional : call.more_named;
      if (more || call.more_named) fail("* and ** may stand once in a call, ** as the last");
      take();
      more = parse_expression();
      call.depth = std::max(call.depth, more->depth + 1);
    } else if (current().kind == Token::Kind::name && ahead().is_sign("=")) {
      if (call.more_named) fail("a named argument stands after **");
      call.named.push_back(take().text);
      take();
      if (std::count(call.named.begin(), call.named.end(), call.named.back()) > 1)
        fail(fmt::format("the argument '{}' is there twice", call.named.back()));
      add(call, parse_expression());
    } else {
      if (!call.named.empty() || call.more_positional || call.more_named)
        fail("an argument without a name stands after one with a name");
      add(call, parse_expression());
      ++call.positional;
    }
  }
  take();
}

ExpressionPtr Parser::parse_call(ExpressionPtr node) {
  auto call = make(Kind::call, current().line, std::move(node));
  parse_arguments(*call);
  return call;
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_name().text;
  while (skip_sign(".")) name += "." + expect_name().text;
  return name;
}

ExpressionPtr Parser::parse_filter(ExpressionPtr node) {
  auto filter = make(Kind::filter, current().line);
  add(*filter, std::move(node));
  filter->name = parse_dotted_name();
  if (at_sign("(")) parse_arguments(*filter);
  return filter;
}

ExpressionPtr Parser::parse_test(ExpressionPtr node) {
  const int line = take().line;
  const bool negated = skip_name("not");
  auto test = make(Kind::test, line, std::move(node));
  test->name = parse_dotted_name();
  const auto kind = current().kind;
  if (at_sign("(")) {
    parse_arguments(*test);
  } else if ((kind == Token::Kind::name && !at_name("else") && !at_name("or") && !at_name("and")) ||
             kind == Token::Kind::string || kind == Token::Kind::integer || kind == Token::Kind::real ||
             at_sign("[") || at_sign("{")) {
    if (at_name("is")) fail("two tests with 'is' cannot be chained");
    add(*test, parse_postfix(parse_primary()));
    test->positional = 1;
  }
  if (!negated) return test;
  return make(Kind::negated, line, std::move(test));
}

}  // namespace trireme::jinja
