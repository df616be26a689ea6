// Regular expressions of users, searched for in texts that nobody has read: Perl's syntax, bounded time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::rewards {

class Pattern {
 public:
  /// A dot matches line ends too. Throws invalid_config with PCRE's reason and the place in `regex`.
  explicit Pattern(const std::string& regex);
  ~Pattern();
  Pattern(Pattern&&) noexcept;

  /// Whether all of `text` is matched.
  bool matches(std::string_view text) const;
  /// Of the last match in `text` the first group, or all of it if there are no groups. Nothing too where
  /// searching takes too long.
  std::optional<std::string> last_in(std::string_view text) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace trireme::rewards
