#include "trainer/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "trainer/jinja/parser_nesting.h"

namespace trireme::jinja {

namespace {

StatementPtr make_statement(Statement::Kind kind, int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = line;
  return statement;
}

const std::vector<std::string> kTags = {"for",  "if",     "set",        "macro", "call",
                                        "with", "filter", "generation", "break", "continue"};

}  // namespace

void Parser::fail_at(int line, const std::string& message) {
  throw SyntaxError{line, message};
}

std::string Parser::describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::data:
      return "text";
    case Token::Kind::variable_begin:
      return "'{{'";
    case Token::Kind::variable_end:
      return "'}}'";
    case Token::Kind::block_begin:
      return "'{%'";
    case Token::Kind::block_end:
      return "'%}'";
    case Token::Kind::string:
      return "a string";
    case Token::Kind::end:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

Token Parser::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::skip_sign(std::string_view sign) {
  const bool here = at_sign(sign);
  if (here) take();
  return here;
}

bool Parser::skip_name(std::string_view name) {
  const bool here = at_name(name);
  if (here) take();
  return here;
}

void Parser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) fail(fmt::format("expected '{}', got {}", sign, describe(current())));
}

Token Parser::expect_name() {
  if (current().kind != Token::Kind::name) fail(fmt::format("expected a name, got {}", describe(current())));
  return take();
}

void Parser::expect_block_end() {
  if (current().kind != Token::Kind::block_end)
    fail(fmt::format("expected '%}}', got {}", describe(current())));
  take();
}

std::vector<StatementPtr> Parser::parse() {
  return parse_body({});
}

std::vector<StatementPtr> Parser::parse_body(const Names& ends) {
  const Nesting nesting(*this);
  std::vector<StatementPtr> body;
  while (true) {
    const Token token = take();
    switch (token.kind) {
      case Token::Kind::data: {
        auto text = make_statement(Statement::Kind::text, token.line);
        text->text = token.text;
        body.push_back(std::move(text));
        break;
      }
      case Token::Kind::variable_begin: {
        auto output = make_statement(Statement::Kind::output, token.line);
        output->expressions.push_back(parse_tuple(true));
        if (current().kind != Token::Kind::variable_end)
          fail(fmt::format("expected '}}}}', got {}", describe(current())));
        take();
        body.push_back(std::move(output));
        break;
      }
      case Token::Kind::block_begin:
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return at_name(end); }))
          return body;
        body.push_back(parse_statement());
        expect_block_end();
        break;
      default:
        if (ends.empty()) return body;
        fail(fmt::format("the template ends where {{% {} %}} is to come", fmt::join(ends, " or ")));
    }
  }
}

std::vector<StatementPtr> Parser::parse_block(const Names& ends) {
  skip_sign(":");
  expect_block_end();
  return parse_body(ends);
}

StatementPtr Parser::parse_statement() {
  const Token& tag = current();
  if (tag.kind != Token::Kind::name) fail(fmt::format("expected the name of a block, got {}", describe(tag)));
  if (tag.text == "for") return parse_for();
  if (tag.text == "if") return parse_if();
  if (tag.text == "set") return parse_set();
  if (tag.text == "macro") return parse_macro();
  if (tag.text == "call") return parse_call_block();
  if (tag.text == "with") return parse_with();
  if (tag.text == "filter") return parse_filter_block();
  if (tag.text == "generation") return parse_generation();
  if (tag.text == "break" || tag.text == "continue") return parse_loop_exit();
  for (const std::string_view known :
       {"block", "extends", "print", "include", "from", "import", "autoescape"})
    if (tag.text == known)
      fail(fmt::format("{{% {} %}} is outside the part of Jinja that chat templates use; it is not supported",
                       known));
  if (tag.text.substr(0, 3) == "end" || tag.text == "else" || tag.text == "elif")
    fail(fmt::format("{{% {} %}} closes nothing here", tag.text));
  const std::string near = nearest(tag.text, kTags);
  fail(fmt::format("there is no block {{% {} %}}{}", tag.text,
                   near.empty() ? "" : "; did you mean " + near + "?"));
}

StatementPtr Parser::parse_for() {
  auto loop = make_statement(Statement::Kind::loop, take().line);
  loop->targets.push_back(parse_target(false, "in"));
  if (!skip_name("in")) fail(fmt::format("expected 'in', got {}", describe(current())));
  loop->expressions.push_back(parse_tuple(false, "recursive"));
  if (skip_name("if")) loop->condition = parse_expression();
  if (at_name("recursive")) fail("a recursive loop is not supported");
  ++loops_;
  loop->body = parse_block({"endfor", "else"});
  --loops_;
  if (take().text == "else") {
    loop->otherwise = parse_block({"endfor"});
    take();
  }
  return loop;
}

StatementPtr Parser::parse_if() {
  auto branch = make_statement(Statement::Kind::branch, take().line);
  while (true) {
    auto condition = parse_tuple(false);
    auto body = parse_block({"elif", "else", "endif"});
    branch->branches.push_back({std::move(condition), std::move(body)});
    const Token tag = take();
    if (tag.text == "elif") continue;
    if (tag.text == "else") {
      branch->branches.push_back({nullptr, parse_block({"endif"})});
      take();
    }
    break;
  }
  return branch;
}

StatementPtr Parser::parse_set() {
  const int line = take().line;
  Target target = parse_target(true, {});
  const bool assign = skip_sign("=");
  auto statement = make_statement(assign ? Statement::Kind::assign : Statement::Kind::capture, line);
  statement->targets.push_back(std::move(target));
  if (assign) {
    statement->expressions.push_back(parse_tuple(true));
    return statement;
  }
  ExpressionPtr filter;
  while (skip_sign("|")) filter = parse_filter(std::move(filter));
  if (filter) statement->expressions.push_back(std::move(filter));
  statement->body = parse_block({"endset"});
  take();
  return statement;
}

void Parser::parse_parameters(Statement& statement) {
  expect_sign("(");
  while (!at_sign(")")) {
    if (!statement.parameters.empty()) expect_sign(",");
    Statement::Parameter parameter;
    parameter.name = expect_name().text;
    for (const auto& other : statement.parameters)
      if (other.name == parameter.name)
        fail(fmt::format("the parameter '{}' is there twice", parameter.name));
    if (skip_sign("=")) {
      parameter.standard = parse_expression();
    } else if (!statement.parameters.empty() && statement.parameters.back().standard) {
      fail(fmt::format("the parameter '{}' needs a default, as the one before it has", parameter.name));
    }
    statement.parameters.push_back(std::move(parameter));
  }
  expect_sign(")");
}

// break and continue do not reach out of a macro.
std::vector<StatementPtr> Parser::parse_function_body(std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  auto body = parse_block({end});
  take();
  loops_ = loops;
  return body;
}

StatementPtr Parser::parse_macro() {
  auto macro = make_statement(Statement::Kind::macro, take().line);
  macro->text = expect_name().text;
  parse_parameters(*macro);
  macro->body = parse_function_body("endmacro");
  return macro;
}

StatementPtr Parser::parse_call_block() {
  auto call = make_statement(Statement::Kind::call, take().line);
  if (at_sign("(")) parse_parameters(*call);
  call->expressions.push_back(parse_expression());
  if (call->expressions[0]->kind != Kind::call) fail_at(call->line, "{% call %} needs the call of a macro");
  call->body = parse_function_body("endcall");
  return call;
}

StatementPtr Parser::parse_with() {
  auto with = make_statement(Statement::Kind::with, take().line);
  while (current().kind != Token::Kind::block_end) {
    if (!with->targets.empty()) expect_sign(",");
    with->targets.push_back(parse_target(false, {}));
    expect_sign("=");
    with->expressions.push_back(parse_expression());
  }
  with->body = parse_block({"endwith"});
  take();
  return with;
}

StatementPtr Parser::parse_filter_block() {
  auto filtered = make_statement(Statement::Kind::filtered, take().line);
  ExpressionPtr filter = parse_filter(nullptr);
  while (skip_sign("|")) filter = parse_filter(std::move(filter));
  filtered->expressions.push_back(std::move(filter));
  filtered->body = parse_block({"endfilter"});
  take();
  return filtered;
}

StatementPtr Parser::parse_generation() {
  auto generation = make_statement(Statement::Kind::generation, take().line);
  generation->body = parse_function_body("endgeneration");
  return generation;
}

StatementPtr Parser::parse_loop_exit() {
  const Token tag = take();
  if (loops_ == 0) fail_at(tag.line, fmt::format("{{% {} %}} stands in no loop", tag.text));
  return make_statement(tag.text == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop,
                        tag.line);
}

Target Parser::parse_target(bool spaces, std::string_view end) {
  const int line = current().line;
  std::vector<Target> targets;
  bool is_tuple = false;
  while (true) {
    if (!targets.empty() && !skip_sign(",")) break;
    if (current().kind == Token::Kind::block_end || at_sign(")") || (!end.empty() && at_name(end))) break;
    targets.push_back(parse_one_target(spaces));
    if (!at_sign(",")) break;
    is_tuple = true;
  }
  if (targets.empty()) fail(fmt::format("expected a name to assign to, got {}", describe(current())));
  if (!is_tuple) return std::move(targets[0]);
  Target target;
  target.line = line;
  target.is_tuple = true;
  target.nested = std::move(targets);
  return target;
}

Target Parser::parse_one_target(bool spaces) {
  if (spaces && current().kind == Token::Kind::name && ahead().is_sign(".")) {
    Target target;
    target.line = current().line;
    target.name = take().text;
    take();
    target.attribute = expect_name().text;
    return target;
  }
  return to_target(*parse_primary());
}

Target Parser::to_target(const Expression& expression) const {
  Target target;
  target.line = expression.line;
  if (expression.kind == Kind::tuple) {
    target.is_tuple = true;
    for (const auto& child : expression.children) target.nested.push_back(to_target(*child));
  } else if (expression.kind == Kind::name) {
    target.name = expression.name;
  } else {
    fail_at(expression.line, "only names, tuples of names and attributes of a namespace can be assigned to");
  }
  return target;
}

}  // namespace trireme::jinja
