#include <algorithm>
#include <cmath>
#include <set>

#include "trainer/answers/expression.h"

namespace trireme::answers {
namespace {

using Kind = Expression::Kind;

constexpr int kPoints = 4;
constexpr long double kTolerance = 1e-12L;

bool is_finite(const Complex& z) {
  return std::isfinite(z.real()) && std::isfinite(z.imag());
}

Complex not_finite() {
  return {std::numeric_limits<long double>::quiet_NaN(), 0};
}

// The real root of a negative number, where the root is odd.
Complex raised(const Complex& base, const Complex& exponent, const Expression& e) {
  if (base == Complex(0)) return exponent.real() > 0 ? Complex(0) : not_finite();
  if (base.imag() == 0 && base.real() < 0 && exponent.imag() == 0)
    if (const auto exact = exact_value(e); exact && !exact->is_whole() && exact->bottom().is_odd())
      return std::pow(-base.real(), exponent.real()) * (exact->top().is_odd() ? -1 : 1);
  return std::pow(base, exponent);
}

Complex called(const std::string& name, const std::vector<Complex>& a) {
  const Complex& x = a[0];
  if (name == "sin") return std::sin(x);
  if (name == "cos") return std::cos(x);
  if (name == "tan") return std::tan(x);
  if (name == "cot") return Complex(1) / std::tan(x);
  if (name == "sec") return Complex(1) / std::cos(x);
  if (name == "csc") return Complex(1) / std::sin(x);
  if (name == "asin") return std::asin(x);
  if (name == "acos") return std::acos(x);
  if (name == "atan") return std::atan(x);
  if (name == "sinh") return std::sinh(x);
  if (name == "cosh") return std::cosh(x);
  if (name == "tanh") return std::tanh(x);
  if (name == "log10") return std::log(x) / std::log(Complex(10));
  if (name == "ln" || name == "log") return a.size() > 1 ? std::log(x) / std::log(a[1]) : std::log(x);
  if (name == "abs") return std::abs(x);
  if (x.imag() != 0) return not_finite();
  if (name == "floor") return std::floor(x.real());
  if (name == "ceil") return std::ceil(x.real());
  if (name == "factorial") return std::tgamma(x.real() + 1);
  if (name == "binom" && a.size() == 2)
    return std::tgamma(x.real() + 1) / std::tgamma(a[1].real() + 1) / std::tgamma(x.real() - a[1].real() + 1);
  return not_finite();
}

void add_symbols(const Expression& e, std::set<std::string>& names) {
  if (e.kind == Kind::symbol) names.insert(e.name);
  for (const Expression& part : e.parts) add_symbols(part, names);
}

}  // namespace

Complex evaluate(const Expression& e, const std::map<std::string, Complex>& symbols) {
  std::vector<Complex> parts;
  for (const Expression& part : e.parts) parts.push_back(evaluate(part, symbols));
  switch (e.kind) {
    case Kind::number:
      return e.value.to_double();
    case Kind::symbol: {
      if (e.name == "pi") return 3.14159265358979323846264338327950288L;
      if (e.name == "e") return 2.71828182845904523536028747135266250L;
      if (e.name == "i") return {0, 1};
      if (e.name == "infinity") return 1e300L;
      const auto found = symbols.find(e.name);
      return found == symbols.end() ? not_finite() : found->second;
    }
    case Kind::add:
      return parts[0] + parts[1];
    case Kind::multiply:
      return parts[0] * parts[1];
    case Kind::divide:
      return parts[1] == Complex(0) ? not_finite() : parts[0] / parts[1];
    case Kind::power:
      return raised(parts[0], parts[1], e.parts[1]);
    case Kind::function:
      return called(e.name, parts);
  }
  return not_finite();
}

bool same_numerically(const Expression& a, const Expression& b) {
  std::set<std::string> names;
  add_symbols(a, names);
  add_symbols(b, names);
  int compared = 0;
  for (int point = 0; point < kPoints; ++point) {
    std::map<std::string, Complex> symbols;
    for (const std::string& name : names) {
      // Some number that belongs to the name, of no simple form; all below zero, some, or none.
      uint64_t hash = 1469598103934665603ULL + static_cast<uint64_t>(point);
      for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
      const long double size = 0.37L + static_cast<long double>(hash >> 11) / 9007199254740992.0L * 2.1L;
      symbols[name] = point == 1 || (point == 3 && (hash & 1) != 0) ? -size : size;
    }
    const Complex x = evaluate(a, symbols), y = evaluate(b, symbols);
    if (!is_finite(x) || !is_finite(y)) {
      if (is_finite(x) != is_finite(y)) return false;
      continue;
    }
    if (std::abs(x - y) > kTolerance * std::max({std::abs(x), std::abs(y), 1e-6L})) return false;
    ++compared;
  }
  return compared > 0;
}

}  // namespace trireme::answers
