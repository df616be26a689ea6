#include <algorithm>
#include <string_view>
#include <utility>

#include "trainer/answers/expression.h"

namespace trireme::answers {

using Kind = Expression::Kind;

Expression number(Rational value) {
  Expression e;
  e.value = std::move(value);
  return e;
}

Expression operation(Kind kind, Expression a, Expression b) {
  Expression e;
  e.kind = kind;
  e.parts.push_back(std::move(a));
  e.parts.push_back(std::move(b));
  return e;
}

Expression negated(Expression e) {
  if (e.kind == Kind::number) {
    e.value = -e.value;
    return e;
  }
  const bool percentage = std::exchange(e.is_percentage, false);
  std::string unit = std::exchange(e.unit, {});
  Expression result = operation(Kind::multiply, number(-1), std::move(e));
  result.is_percentage = percentage;
  result.unit = std::move(unit);
  return result;
}

namespace {

struct NoExpression {};
constexpr int kMaxDepth = 100;

bool is_whole(const Expression& e) {
  return e.kind == Kind::number && e.value.is_whole() && !e.is_decimal && !e.value.is_negative();
}

Expression call(std::string name, std::vector<Expression> arguments) {
  Expression e;
  e.kind = Kind::function;
  e.name = std::move(name);
  e.parts = std::move(arguments);
  return e;
}

class Parser {
 public:
  Parser(std::span<const Token> tokens, int plus_minus) : tokens_(tokens), plus_minus_(plus_minus) {}

  Expression whole() {
    if (tokens_.empty()) throw NoExpression();
    Expression e = sum();
    trailing(e);
    if (at_ < tokens_.size()) throw NoExpression();
    return e;
  }

 private:
  bool is(std::string_view mark) const { return at_ < tokens_.size() && tokens_[at_].is(mark); }
  bool is(TokenKind kind) const { return at_ < tokens_.size() && tokens_[at_].kind == kind; }
  bool take(std::string_view mark) {
    const bool found = is(mark);
    if (found) ++at_;
    return found;
  }
  void expect(std::string_view mark) {
    if (!take(mark)) throw NoExpression();
  }

  // Units and percent signs that end the answer: 5 cm^2, 12.5 %, 30 degrees
  void trailing(Expression& e) {
    if (take("%")) e.is_percentage = true;
    if (is(TokenKind::text) && tokens_[at_].text == "percent") {
      e.is_percentage = true;
      ++at_;
    }
    const size_t begin = at_;
    while (at_ < tokens_.size()) {
      const Token& token = tokens_[at_];
      const bool part = token.kind == TokenKind::text || token.is("^") || token.is("/") || token.is("deg") ||
                        token.is("{") || token.is("}") || token.is("*") ||
                        (at_ > begin && token.kind == TokenKind::number) ||
                        (at_ > begin && token.kind == TokenKind::symbol && token.text.size() == 1);
      if (!part) throw NoExpression();
      if (token.kind == TokenKind::text && (token.text == "or" || token.text == "and")) throw NoExpression();
      if (token.kind != TokenKind::mark || token.text == "/") e.unit += token.text;
      if (token.is("^") && at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == TokenKind::number)
        e.unit += "^";
      ++at_;
    }
  }

  Expression sum() {
    if (++depth_ > kMaxDepth) throw NoExpression();
    Expression left = signed_product();
    while (is("+") || is("-") || is("pm")) {
      const int sign = is("pm") ? plus_minus_ : is("-") ? -1 : 1;
      ++at_;
      Expression right = signed_product();
      left = operation(Kind::add, std::move(left), sign < 0 ? negated(std::move(right)) : std::move(right));
    }
    --depth_;
    return left;
  }

  Expression signed_product() {
    int sign = 1;
    while (is("+") || is("-") || is("pm")) {
      sign *= is("pm") ? plus_minus_ : is("-") ? -1 : 1;
      ++at_;
    }
    Expression e = product();
    return sign < 0 ? negated(std::move(e)) : e;
  }

  bool begins_factor() const {
    if (at_ >= tokens_.size()) return false;
    const Token& token = tokens_[at_];
    switch (token.kind) {
      case TokenKind::number:
        return true;
      case TokenKind::symbol:
      case TokenKind::function:
        return true;
      case TokenKind::text:
        return false;
      case TokenKind::mark:
        return token.is("(") || token.is("{") || token.is("[") || (token.is("|") && bars_ == 0);
    }
    return false;
  }

  Expression product() {
    Expression left = factor();
    for (;;) {
      if (take("*")) {
        left = operation(Kind::multiply, std::move(left), signed_factor());
      } else if (is("/") && at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind != TokenKind::text) {
        ++at_;
        left = operation(Kind::divide, std::move(left), signed_factor());
      } else if (begins_factor()) {
        const bool mixed = is_whole(left) && is_proper_fraction();
        if (is(TokenKind::number) && tokens_[at_ - 1].kind == TokenKind::number && !mixed)
          throw NoExpression();  // 3 4
        Expression right = mixed ? fraction_of_mixed() : factor();
        left = operation(mixed ? Kind::add : Kind::multiply, std::move(left), std::move(right));
      } else {
        return left;
      }
    }
  }

  Expression signed_factor() {
    int sign = 1;
    for (; is("+") || is("-"); ++at_)
      if (is("-")) sign = -sign;
    Expression e = factor();
    return sign < 0 ? negated(std::move(e)) : e;
  }

  const Token* token(size_t ahead) const {
    return at_ + ahead < tokens_.size() ? &tokens_[at_ + ahead] : nullptr;
  }

  // 1 1/2 and 1\frac{1}{2} are mixed numbers; 2\frac{3}{2} and 2\frac{x}{3} are products.
  bool is_proper_fraction() const {
    const auto whole = [&](size_t ahead) -> const Rational* {
      const Token* t = token(ahead);
      return t && t->kind == TokenKind::number && t->decimals < 0 ? &t->value : nullptr;
    };
    if (const Rational* top = whole(0); top && token(1) && token(1)->is("/"))
      if (const Rational* bottom = whole(2)) return *top < *bottom && tokens_[at_].after_space;
    if (!token(0) || token(0)->kind != TokenKind::function || token(0)->text != "frac") return false;
    size_t ahead = 1;
    const Rational* parts[2] = {};
    for (const Rational*& part : parts) {
      const bool braced = token(ahead) && token(ahead)->is("{");
      if (braced) ++ahead;
      part = whole(ahead++);
      if (!part || (braced && !(token(ahead++) && tokens_[at_ + ahead - 1].is("}")))) return false;
    }
    return *parts[0] < *parts[1] && !(token(ahead) && token(ahead)->is("^"));
  }

  Expression fraction_of_mixed() {
    if (!is(TokenKind::number)) return factor();
    Expression top = number(tokens_[at_].value), bottom = number(tokens_[at_ + 2].value);
    at_ += 3;
    return operation(Kind::divide, std::move(top), std::move(bottom));
  }

  Expression factor() {
    Expression base = primary();
    for (;;) {
      if (take("^")) {
        if (take("deg")) continue;
        if (is("{") && at_ + 2 < tokens_.size() && tokens_[at_ + 1].is("deg") && tokens_[at_ + 2].is("}")) {
          at_ += 3;
          continue;
        }
        base = operation(Kind::power, std::move(base), exponent());
      } else if (take("!")) {
        base = call("factorial", {std::move(base)});
      } else if (is("%") && at_ + 1 < tokens_.size()) {
        ++at_;
        base = operation(Kind::divide, std::move(base), number(100));
      } else if (!take("deg")) {
        return base;
      }
    }
  }

  // Powers bind to the right: 2^3^2.
  Expression exponent() {
    if (++depth_ > kMaxDepth) throw NoExpression();
    int sign = 1;
    for (; is("+") || is("-"); ++at_)
      if (is("-")) sign = -sign;
    Expression e = primary();
    if (take("^")) e = operation(Kind::power, std::move(e), exponent());
    --depth_;
    return sign < 0 ? negated(std::move(e)) : e;
  }

  Expression bracketed(std::string_view close) {
    ++at_;
    const int bars = std::exchange(bars_, 0);
    Expression e = sum();
    bars_ = bars;
    expect(close);
    return e;
  }

  Expression primary() {
    if (at_ >= tokens_.size()) throw NoExpression();
    const Token& t = tokens_[at_];
    if (t.kind == TokenKind::number) {
      ++at_;
      Expression e = number(t.value);
      e.is_decimal = t.decimals >= 0;
      e.decimals = std::max(t.decimals, 0);
      return e;
    }
    if (t.kind == TokenKind::symbol) {
      ++at_;
      Expression e;
      e.kind = Kind::symbol;
      e.name = t.text;
      return e;
    }
    if (t.kind == TokenKind::function) return function();
    if (t.is("(")) return bracketed(")");
    if (t.is("[")) return bracketed("]");
    if (t.is("{")) return bracketed("}");
    if (t.is("|")) {
      ++at_;
      ++bars_;
      Expression e = sum();
      --bars_;
      expect("|");
      return call("abs", {std::move(e)});
    }
    throw NoExpression();
  }

  Expression argument() { return is("{") ? bracketed("}") : primary(); }

  Expression function() {
    if (++depth_ > kMaxDepth) throw NoExpression();
    const std::string name = tokens_[at_++].text;
    Expression result;
    if (name == "frac" || name == "binom") {
      Expression top = argument(), bottom = argument();
      result = name == "frac" ? operation(Kind::divide, std::move(top), std::move(bottom))
                              : call("binom", {std::move(top), std::move(bottom)});
    } else if (name == "sqrt" || name == "cbrt") {
      Expression root = number(name == "sqrt" ? 2 : 3);
      if (name == "sqrt" && is("[")) root = bracketed("]");
      Expression inside = argument();
      result = operation(Kind::power, std::move(inside), operation(Kind::divide, number(1), std::move(root)));
    } else {
      std::vector<Expression> arguments;
      Expression times = number(1);
      if (name == "log" && take("_")) arguments.push_back(argument());
      if (take("^")) times = exponent();
      arguments.insert(arguments.begin(), is("(") || is("{") ? argument() : bare_argument());
      if (name == "exp") {
        Expression e;
        e.kind = Kind::symbol;
        e.name = "e";
        result = operation(Kind::power, std::move(e), std::move(arguments[0]));
      } else if (times.kind == Kind::number && times.value == Rational(-1) && name.size() == 3 &&
                 (name == "sin" || name == "cos" || name == "tan")) {
        result = call("a" + name, std::move(arguments));
        times = number(1);
      } else {
        result = call(name, std::move(arguments));
      }
      if (!(times.kind == Kind::number && times.value == Rational(1)))
        result = operation(Kind::power, std::move(result), std::move(times));
    }
    --depth_;
    return result;
  }

  // sin 2x, ln 5, sin 30^\circ: factors up to the next sign; degrees matter here.
  Expression bare_argument() {
    Expression e = degrees(primary());
    if (take("^")) e = is("deg") ? degrees(std::move(e)) : operation(Kind::power, std::move(e), exponent());
    while (is(TokenKind::number) || is(TokenKind::symbol))
      e = operation(Kind::multiply, std::move(e), primary());
    if (is("/")) {
      ++at_;
      e = operation(Kind::divide, std::move(e), primary());
    }
    return e;
  }

  Expression degrees(Expression e) {
    if (is("^") && token(1) && token(1)->is("deg")) ++at_;
    if (!take("deg")) return e;
    Expression pi;
    pi.kind = Kind::symbol;
    pi.name = "pi";
    return operation(Kind::multiply, operation(Kind::divide, std::move(e), number(180)), std::move(pi));
  }

  std::span<const Token> tokens_;
  size_t at_ = 0;
  int plus_minus_;
  int depth_ = 0;
  int bars_ = 0;  // open |
};

}  // namespace

std::optional<Expression> parse_expression(std::span<const Token> tokens, int plus_minus) {
  try {
    return Parser(tokens, plus_minus).whole();
  } catch (const NoExpression&) {
    return std::nullopt;
  }
}

}  // namespace trireme::answers
