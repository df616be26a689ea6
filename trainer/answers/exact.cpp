// Expressions in a form in which equal ones look equal: quotients of polynomials over the rational numbers,
// in symbols, pi, e, i and square roots of primes. The relations between those (i^2 = -1, sqrt(p)^2 = p) are
// built in, all else is independent, so different forms are different values.
#include <algorithm>

#include "trainer/answers/expression.h"

namespace trireme::answers {
namespace {

using Kind = Expression::Kind;

constexpr size_t kMaxTerms = 400, kMaxProducts = 2000;
constexpr size_t kMaxName = 4000;
constexpr int64_t kMaxExponent = 64;  // of a sum of several terms
constexpr int64_t kMaxPrime = 5000;

// Names of square roots of primes and of -1 begin so; their squares are numbers.
constexpr char kRoot = '#';
// Names of what is not known to be independent of all else begin so.
constexpr char kOpaque = '?';

using Monomial = std::map<std::string, int64_t>;  // symbol -> exponent, none of them 0
using Polynomial = std::map<Monomial, Rational>;  // none of them 0

void add_term(Polynomial& p, Monomial monomial, Rational factor) {
  for (auto it = monomial.begin(); it != monomial.end();) {
    if (it->first[0] == kRoot) {
      const Rational square(Integer(std::stoll(it->first.substr(1))));
      const int64_t odd = ((it->second % 2) + 2) % 2;
      factor = factor * power(square, (it->second - odd) / 2);
      it->second = odd;
    }
    it = it->second == 0 ? monomial.erase(it) : std::next(it);
  }
  const auto found = p.find(monomial);
  if (found == p.end()) {
    if (!factor.is_zero()) p.emplace(std::move(monomial), std::move(factor));
  } else {
    found->second = found->second + factor;
    if (found->second.is_zero()) p.erase(found);
  }
  if (p.size() > kMaxTerms) throw NotExact("a polynomial of too many terms");
}

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
  Polynomial result = a;
  for (const auto& [monomial, factor] : b) add_term(result, monomial, factor);
  return result;
}

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  if (a.size() * b.size() > kMaxProducts) throw NotExact("a product of too many terms");
  Polynomial result;
  for (const auto& [left, x] : a)
    for (const auto& [right, y] : b) {
      Monomial product = left;
      for (const auto& [name, exponent] : right) product[name] += exponent;
      add_term(result, std::move(product), x * y);
    }
  return result;
}

struct Quotient {
  Polynomial top, bottom;
};

Polynomial constant(const Rational& value) {
  Polynomial p;
  add_term(p, {}, value);
  return p;
}

Quotient quotient(Polynomial top, Polynomial bottom) {
  if (bottom.empty()) throw NotExact("a division by zero");
  if (bottom.size() > 1) return {std::move(top), std::move(bottom)};
  // One term is multiplied out, whatever is in it.
  Monomial inverse = bottom.begin()->first;
  for (auto& [name, exponent] : inverse) exponent = -exponent;
  Polynomial factor;
  add_term(factor, std::move(inverse), Rational(1) / bottom.begin()->second);
  return {top * factor, constant(1)};
}

Quotient constant_quotient(const Rational& value) {
  return {constant(value), constant(1)};
}

Quotient symbol(const std::string& name) {
  Polynomial p;
  add_term(p, {{name, 1}}, 1);
  return {p, constant(1)};
}

Quotient operator+(const Quotient& a, const Quotient& b) {
  if (a.bottom == b.bottom) return quotient(a.top + b.top, a.bottom);
  return quotient(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom);
}
Quotient operator*(const Quotient& a, const Quotient& b) {
  return quotient(a.top * b.top, a.bottom * b.bottom);
}
Quotient operator/(const Quotient& a, const Quotient& b) {
  return quotient(a.top * b.bottom, a.bottom * b.top);
}

std::optional<Rational> value_of(const Quotient& q) {
  if (q.bottom != constant(1) || q.top.size() > 1) return std::nullopt;
  if (q.top.empty()) return Rational(0);
  if (!q.top.begin()->first.empty()) return std::nullopt;
  return q.top.begin()->second;
}

std::string written(const Polynomial& p) {
  std::string text;
  for (const auto& [monomial, factor] : p) {
    text += factor.to_string();
    for (const auto& [name, exponent] : monomial) text += "*" + name + "^" + std::to_string(exponent);
    text += ";";
  }
  return text;
}
std::string written(const Quotient& q) {
  return "(" + written(q.top) + "/" + written(q.bottom) + ")";
}

// The primes of a number above 0, and how often. What is left beyond kMaxPrime may be no prime.
std::map<Integer, int64_t> factors_of(Integer n, bool& sure) {
  std::map<Integer, int64_t> factors;
  for (int64_t prime = 2; prime <= kMaxPrime; prime += prime == 2 ? 1 : 2) {
    const Integer p(prime);
    if (n < p * p) break;
    while ((n % p).is_zero()) {
      ++factors[p];
      n = n / p;
    }
  }
  if (n > Integer(1)) ++factors[n];
  sure = n <= Integer(kMaxPrime) * Integer(kMaxPrime);
  return factors;
}

// The root-th root of a fraction above 0: primes leave it as often as they can.
Quotient root_of(const Rational& value, int64_t root) {
  Quotient result = constant_quotient(1);
  for (const auto& [part, sign] :
       {std::pair{value.top(), int64_t{1}}, std::pair{value.bottom(), int64_t{-1}}}) {
    bool sure = true;
    for (const auto& [prime, times] : factors_of(part, sure)) {
      result = result * constant_quotient(power(Rational(prime), sign * (times / root)));
      const int64_t left = times % root;
      if (left == 0) continue;
      Polynomial p;
      const std::string digits = prime.to_string();
      if (root == 2 && sure && digits.size() < 12)
        add_term(p, {{kRoot + digits, sign}}, 1);
      else
        add_term(p, {{kOpaque + digits + "^" + std::to_string(left) + "/" + std::to_string(root), sign}}, 1);
      result = result * Quotient{p, constant(1)};
    }
  }
  return result;
}

Quotient normal(const Expression& e);

Quotient opaque(const std::string& name, const std::vector<Quotient>& arguments) {
  std::string text = kOpaque + name;
  for (const Quotient& argument : arguments) text += written(argument);
  if (text.size() > kMaxName) throw NotExact("an expression that is too long");
  return symbol(text);
}

Quotient whole_power(const Quotient& base, int64_t exponent) {
  if (exponent < 0) return whole_power(constant_quotient(1) / base, -exponent);
  if (const auto value = value_of(base)) return constant_quotient(power(*value, exponent));
  if (base.top.size() == 1 && base.bottom.size() == 1 && exponent <= 1000000) {
    Monomial monomial = base.top.begin()->first;
    for (auto& [name, times] : monomial) times *= exponent;
    Polynomial p;
    add_term(p, std::move(monomial), power(base.top.begin()->second, exponent));
    return {p, constant(1)};
  }
  if (exponent > kMaxExponent) throw NotExact("a power that is too large");
  Quotient result = constant_quotient(1);
  for (int64_t i = 0; i < exponent; ++i) result = result * base;
  return result;
}

Quotient raised(const Expression& e) {
  const Quotient base = normal(e.parts[0]), power_of = normal(e.parts[1]);
  const auto exponent = value_of(power_of);
  if (!exponent || !exponent->top().is_between(-1000000, 1000000) || !exponent->bottom().is_between(1, 64))
    return opaque("power", {base, power_of});
  const int64_t top = exponent->top().to_int64(), root = exponent->bottom().to_int64();
  if (root == 1) return whole_power(base, top);
  const auto value = value_of(base);
  if (!value) return opaque("power", {base, power_of});
  if (value->is_zero()) {
    if (top < 0) throw NotExact("zero to a negative power");
    return constant_quotient(0);
  }
  Quotient result = root_of(value->is_negative() ? -*value : *value, root);
  if (value->is_negative() && root == 2) result = result * symbol(std::string(1, kRoot) + "-1");
  if (value->is_negative() && root % 2 == 0 && root != 2) return opaque("power", {base, power_of});
  if (value->is_negative() && root % 2 == 1) result = result * constant_quotient(-1);  // the real root
  return whole_power(result, top);
}

Quotient called(const Expression& e) {
  const auto whole = [](const Quotient& q, int64_t high) -> std::optional<int64_t> {
    const auto value = value_of(q);
    if (!value || !value->is_whole() || !value->top().is_between(0, high)) return std::nullopt;
    return value->top().to_int64();
  };
  std::vector<Quotient> arguments;
  for (const Expression& part : e.parts) arguments.push_back(normal(part));
  const Quotient& inside = arguments[0];
  if (e.name == "factorial")
    if (const auto n = whole(inside, 100)) {
      Rational product = 1;
      for (int64_t i = 2; i <= *n; ++i) product = product * Rational(i);
      return constant_quotient(product);
    }
  if (e.name == "binom")
    if (const auto n = whole(inside, 1000)) {
      const auto k = whole(arguments[1], 1000);
      if (k && *k > *n) return constant_quotient(0);
      Rational product = 1;
      for (int64_t i = 1; k && i <= *k; ++i) product = product * Rational(Integer(*n - *k + i), Integer(i));
      if (k) return constant_quotient(product);
    }
  if (e.name == "abs")
    if (const auto value = value_of(inside))
      return constant_quotient(value->is_negative() ? -*value : *value);
  if (e.name == "ln" || (e.name == "log" && e.parts.size() == 1))
    return opaque("log", arguments);  // where no base is written, it is e, as in sympy
  return opaque(e.name, arguments);
}

Quotient normal(const Expression& e) {
  switch (e.kind) {
    case Kind::number:
      return constant_quotient(e.value);
    case Kind::symbol:
      return symbol(e.name == "i" ? std::string(1, kRoot) + "-1" : e.name);
    case Kind::add:
      return normal(e.parts[0]) + normal(e.parts[1]);
    case Kind::multiply:
      return normal(e.parts[0]) * normal(e.parts[1]);
    case Kind::divide:
      return normal(e.parts[0]) / normal(e.parts[1]);
    case Kind::power:
      return raised(e);
    case Kind::function:
      return called(e);
  }
  throw NotExact("an expression of another kind");
}

bool is_opaque(const Polynomial& p) {
  return std::ranges::any_of(p, [](const auto& term) {
    return std::ranges::any_of(term.first, [](const auto& symbol) { return symbol.first[0] == kOpaque; });
  });
}

bool is_opaque(const Quotient& q) {
  return is_opaque(q.top) || is_opaque(q.bottom);
}

}  // namespace

Same same_exactly(const Expression& a, const Expression& b) {
  try {
    const Quotient x = normal(a), y = normal(b);
    if (x.top * y.bottom == y.top * x.bottom) return Same::yes;
    return is_opaque(x) || is_opaque(y) ? Same::unknown : Same::no;
  } catch (const NotExact&) {
    return Same::unknown;
  }
}

Same same_up_to_factor(const Expression& a, const Expression& b) {
  try {
    const Quotient x = normal(a), y = normal(b);
    const Polynomial left = x.top * y.bottom, right = y.top * x.bottom;
    if (left.empty() || right.empty()) return left.empty() == right.empty() ? Same::yes : Same::no;
    // One polynomial's first coefficient over the other's is the only factor that there can be.
    const Polynomial scaled = right * constant(left.begin()->second / right.begin()->second);
    if (scaled == left) return Same::yes;
    return is_opaque(left) || is_opaque(right) ? Same::unknown : Same::no;
  } catch (const NotExact&) {
    return Same::unknown;
  }
}

std::optional<Rational> exact_value(const Expression& e) {
  try {
    return value_of(normal(e));
  } catch (const NotExact&) {
    return std::nullopt;
  }
}

}  // namespace trireme::answers
