// The variables of a shell script, as far as their values follow from its text and the environment.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme::verl {

/// The value of an environment variable, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// A value as far as it is known.
struct ShellValue {
  std::string text;
  std::vector<std::string> missing = {};  // what the text lacks: "$MODEL" (not set), "$(date)" (not run)
};

class ShellVariables {
 public:
  explicit ShellVariables(Environment environment) : environment_(std::move(environment)) {}

  /// `tentative`: inside of if, for or case, which are not followed. There the first value of a name stays,
  /// and the name is doubtful.
  void assign(const std::string& name, std::vector<ShellValue> items, bool tentative = false);
  void append(const std::string& name, ShellValue value);
  void append_items(const std::string& name, const std::vector<ShellValue>& items);

  bool is_set(const std::string& name) const { return !items(name).empty(); }
  /// Nothing if the name is not set, or its value lacks something.
  std::optional<std::string> value(const std::string& name) const;
  /// What value() lacks, "$NAME" itself if it is not set.
  std::vector<std::string> missing(const std::string& name) const;
  /// An array's items; of anything else its value, or nothing.
  std::vector<ShellValue> items(const std::string& name) const;
  bool doubtful(const std::string& name) const { return doubtful_.count(name) != 0; }

  /// The text between $(( and )): whole numbers, names, + - * / % ** and parentheses. Nothing if it holds
  /// anything else, a name that is not set, or a division by zero.
  std::optional<int64_t> arithmetic(const std::string& text) const;

 private:
  Environment environment_;
  std::map<std::string, std::vector<ShellValue>> values_;  // an array's items, or the one value
  std::set<std::string> doubtful_;
};

/// `value` without its shortest or longest beginning (# ##) or end (% %%) that `pattern` (* ? [...]) fits.
std::string strip_pattern(const std::string& value, const std::string& pattern, bool end, bool longest);

}  // namespace trireme::verl
