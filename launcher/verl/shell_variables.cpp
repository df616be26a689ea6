#include "launcher/verl/shell_variables.h"

#include <fnmatch.h>

#include <cctype>
#include <cstdlib>

namespace trireme::verl {
namespace {

// Recursive descent; any mistake makes the whole of no value. Numbers wrap as the shell's do.
class Arithmetic {
 public:
  Arithmetic(const std::string& text, const ShellVariables& variables, int depth)
      : text_(text), variables_(variables), depth_(depth) {}

  std::optional<int64_t> whole() {
    const int64_t result = sum();
    skip();
    if (at_ != text_.size()) good_ = false;
    return good_ ? std::optional(result) : std::nullopt;
  }

 private:
  static constexpr int kMaxDepth = 64;  // of parentheses, and of variables that name variables

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(const std::string& sign) {
    skip();
    if (text_.compare(at_, sign.size(), sign) != 0) return false;
    at_ += sign.size();
    return true;
  }
  static int64_t wrapped(uint64_t bits) { return static_cast<int64_t>(bits); }

  int64_t sum() {
    int64_t left = product();
    while (good_) {
      if (take("+"))
        left = wrapped(static_cast<uint64_t>(left) + static_cast<uint64_t>(product()));
      else if (take("-"))
        left = wrapped(static_cast<uint64_t>(left) - static_cast<uint64_t>(product()));
      else
        break;
    }
    return left;
  }

  int64_t product() {
    int64_t left = power();
    while (good_) {
      if (take("*")) {
        left = wrapped(static_cast<uint64_t>(left) * static_cast<uint64_t>(power()));
      } else if (take("/") || take("%")) {
        const bool remainder = text_[at_ - 1] == '%';
        const int64_t right = power();
        if (right == 0 || (left == INT64_MIN && right == -1)) return failed();
        left = remainder ? left % right : left / right;
      } else {
        break;
      }
    }
    return left;
  }

  int64_t power() {
    const int64_t base = unary();
    if (!good_ || !take("**")) return base;
    const int64_t exponent = power();
    if (exponent < 0 || exponent > 63) return failed();
    uint64_t result = 1;
    for (int64_t i = 0; i < exponent; ++i) result *= static_cast<uint64_t>(base);
    return wrapped(result);
  }

  int64_t unary() {
    if (++depth_ > kMaxDepth) return failed();
    int64_t result = 0;
    skip();
    if (take("-")) {
      result = wrapped(-static_cast<uint64_t>(unary()));
    } else if (take("+")) {
      result = unary();
    } else if (take("(")) {
      result = sum();
      if (!take(")")) failed();
    } else {
      result = number_or_name();
    }
    --depth_;
    return result;
  }

  int64_t number_or_name() {
    if (at_ < text_.size() && text_[at_] == '$') ++at_;
    const bool braced = take("{");
    const size_t from = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    const std::string word = text_.substr(from, at_ - from);
    if (word.empty() || (braced && !take("}"))) return failed();
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      char* end = nullptr;
      const int64_t number = std::strtoll(word.c_str(), &end, 0);
      return *end == '\0' ? number : failed();
    }
    const auto value = variables_.value(word);
    if (!value) return failed();
    const auto inner = Arithmetic(*value, variables_, depth_).whole();
    return inner ? *inner : failed();
  }

  int64_t failed() {
    good_ = false;
    return 0;
  }

  const std::string& text_;
  const ShellVariables& variables_;
  size_t at_ = 0;
  int depth_;
  bool good_ = true;
};

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

void ShellVariables::assign(const std::string& name, std::vector<ShellValue> items, bool tentative) {
  if (tentative)
    doubtful_.insert(name);
  else
    doubtful_.erase(name);
  if (!tentative || !is_set(name)) values_[name] = std::move(items);
}

void ShellVariables::append(const std::string& name, ShellValue value) {
  auto all = items(name);
  if (all.empty()) all.emplace_back();
  all[0].text += value.text;
  all[0].missing.insert(all[0].missing.end(), value.missing.begin(), value.missing.end());
  values_[name] = std::move(all);
}

void ShellVariables::append_items(const std::string& name, const std::vector<ShellValue>& items) {
  auto all = this->items(name);
  all.insert(all.end(), items.begin(), items.end());
  values_[name] = std::move(all);
}

std::optional<std::string> ShellVariables::value(const std::string& name) const {
  const auto all = items(name);
  if (all.empty() || !all[0].missing.empty()) return std::nullopt;
  return all[0].text;
}

std::vector<std::string> ShellVariables::missing(const std::string& name) const {
  const auto all = items(name);
  return all.empty() ? std::vector<std::string>{"$" + name} : all[0].missing;
}

std::vector<ShellValue> ShellVariables::items(const std::string& name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto value = environment_(name);
  return value ? std::vector<ShellValue>{{*value, {}}} : std::vector<ShellValue>{};
}

std::optional<int64_t> ShellVariables::arithmetic(const std::string& text) const {
  return Arithmetic(text, *this, 0).whole();
}

std::string strip_pattern(const std::string& value, const std::string& pattern, bool end, bool longest) {
  const size_t size = value.size();
  for (size_t i = 0; i <= size; ++i) {
    const size_t length = longest ? size - i : i;
    const std::string part = end ? value.substr(size - length) : value.substr(0, length);
    if (fnmatch(pattern.c_str(), part.c_str(), 0) == 0)
      return end ? value.substr(0, size - length) : value.substr(length);
  }
  return value;
}

}  // namespace trireme::verl
