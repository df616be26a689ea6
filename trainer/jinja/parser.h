// Tokens to statements and expressions.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/jinja/lexer.h"
#include "trainer/jinja/syntax.h"

namespace trireme::jinja {

class Parser {
 public:
  /// Constants go to `constants`, which must outlive what is parsed.
  Parser(std::vector<Token> tokens, Workspace& constants)
      : tokens_(std::move(tokens)), constants_(constants) {}

  /// Throws SyntaxError.
  std::vector<StatementPtr> parse();

 private:
  using Kind = Expression::Kind;
  using Names = std::vector<std::string_view>;
  struct Nesting;  // counts how deep the parser is

  // Statements.
  std::vector<StatementPtr> parse_body(const Names& ends);   // stops at one of them, which is then current
  std::vector<StatementPtr> parse_block(const Names& ends);  // from a tag's end on
  StatementPtr parse_statement();
  StatementPtr parse_for();
  StatementPtr parse_if();
  StatementPtr parse_set();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_with();
  StatementPtr parse_filter_block();
  StatementPtr parse_generation();
  StatementPtr parse_loop_exit();
  void parse_parameters(Statement& statement);
  std::vector<StatementPtr> parse_function_body(std::string_view end);
  Target parse_target(bool spaces, std::string_view end);
  Target parse_one_target(bool spaces);
  Target to_target(const Expression& expression) const;

  // Expressions, loosest first.
  ExpressionPtr parse_tuple(bool conditional, std::string_view end = {}, bool parentheses = false);
  ExpressionPtr parse_expression(bool conditional = true);
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_string();
  ExpressionPtr parse_number();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters(ExpressionPtr node);
  ExpressionPtr parse_subscript(ExpressionPtr node);
  ExpressionPtr parse_call(ExpressionPtr node);
  ExpressionPtr parse_filter(ExpressionPtr node);
  ExpressionPtr parse_test(ExpressionPtr node);
  void parse_arguments(Expression& call);
  std::string parse_dotted_name();

  ExpressionPtr make(Kind kind, int line) const;
  ExpressionPtr make(Kind kind, int line, ExpressionPtr a, ExpressionPtr b = nullptr) const;
  /// Adds the child and counts its depth.
  void add(Expression& node, ExpressionPtr child) const;

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool at_sign(std::string_view sign) const { return current().is_sign(sign); }
  bool at_name(std::string_view name) const { return current().is_name(name); }
  Token take();
  bool skip_sign(std::string_view sign);
  bool skip_name(std::string_view name);
  void expect_sign(std::string_view sign);
  Token expect_name();
  void expect_block_end();
  [[noreturn]] void fail(const std::string& message) const { fail_at(current().line, message); }
  [[noreturn]] static void fail_at(int line, const std::string& message);
  static std::string describe(const Token& token);

  std::vector<Token> tokens_;
  Workspace& constants_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // around, within the same macro
};

/// Gives every name its frame and slot, as Jinja's compiler scopes them, and looks up filters and tests.
/// Throws SyntaxError.
void resolve_names(std::vector<StatementPtr>& body, Scope& scope);

}  // namespace trireme::jinja
