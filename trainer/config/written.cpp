#include "trainer/config/written.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "trainer/config/names.h"
#include "trainer/config/schema.h"

namespace trireme::config {
namespace {

std::string with_article(const std::string& type) {
  if (type == "true or false") return type;
  return (type == "integer" ? "an " : "a ") + type;
}

std::string described(const toml::node& node) {
  if (const auto* value = node.as_string()) return quoted(value->get()) + " (a string)";
  if (const auto* value = node.as_integer()) return fmt::format("{} (an integer)", value->get());
  if (const auto* value = node.as_floating_point())
    return fmt::format("{:#} (a number with a fraction)", value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  return "a date or time";
}

// A mistake takes one line, whatever was written.
std::string in_one_line(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
  return text;
}

// Stores the node's value if it is of the field's type; an integer will do for a number, a string for a list
// of one.
bool store(const toml::node& node, const Key& key, RunConfig& config) {
  return std::visit(
      [&](auto field) {
        auto& target = field(config);
        using T = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool>) {
          if (!node.is_boolean()) return false;
          target = node.as_boolean()->get();
        } else if constexpr (std::is_same_v<T, double>) {
          if (!node.is_number()) return false;
          target = node.is_integer() ? static_cast<double>(node.as_integer()->get())
                                     : node.as_floating_point()->get();
        } else if constexpr (std::is_integral_v<T>) {
          if (!node.is_integer()) return false;
          target = static_cast<T>(node.as_integer()->get());
        } else if constexpr (std::is_same_v<T, std::string>) {
          if (!node.is_string()) return false;
          target = node.as_string()->get();
        } else {
          T items;
          if (node.is_string()) {
            items.push_back(node.as_string()->get());
          } else {
            if (!node.is_array()) return false;
            for (const toml::node& item : *node.as_array()) {
              if (!item.is_string()) return false;
              items.push_back(item.as_string()->get());
            }
          }
          target = std::move(items);
        }
        return true;
      },
      key.field);
}

// Why a value of the wrong type may have been written, and what to write.
std::string type_hint(const toml::node& node, const Key& key) {
  const std::string type = type_name(key);
  if (is_text(key)) return "; put it in quotes";
  if (type == "integer" && node.is_floating_point()) return "; write it without a fraction or exponent";
  if (node.is_string() && (type == "integer" || type == "number" || type == "true or false"))
    return "; write it without quotes";
  return "";
}

// Negative seeds: the unsigned field would take them as huge numbers, so they are looked at before.
std::string negative_violation(const toml::node& node, const Key& key) {
  const bool is_unsigned = std::holds_alternative<uint64_t& (*)(RunConfig&)>(key.field);
  if (!is_unsigned || !node.is_integer() || node.as_integer()->get() >= 0) return "";
  return fmt::format("must be {}, found {}", range_text(key), node.as_integer()->get());
}

class Reader {
 public:
  explicit Reader(Written& written) : written_(written) {}

  void read_file(const std::string& text) {
    try {
      const toml::table root = toml::parse(text, written_.file);
      walk(root, "");
    } catch (const toml::parse_error& error) {
      const auto at = error.source().begin;
      // A file that cannot be parsed says nothing sure: only what it says wrong is told.
      syntax_error_ = true;
      note(at.line, fmt::format("{}:{}:{}", written_.file, at.line, at.column),
           std::string(error.description()));
    }
    std::stable_sort(notes_.begin(), notes_.end(),
                     [](const Note& a, const Note& b) { return a.line < b.line; });
    for (Note& n : notes_) written_.mistakes.add(std::move(n.where), std::move(n.what));
    notes_.clear();
  }

  void read_override(const std::string& argument) {
    const std::string where = "command line: " + in_one_line(argument);
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      written_.mistakes.add(where, "expected key=value, for example rollout.n=8");
      return;
    }
    const std::string name = argument.substr(0, equals), value = argument.substr(equals + 1);
    const Key* key = find_key(name);
    if (!key) {
      written_.mistakes.add(where, find_table(name)
                                       ? fmt::format("{0} is a table: set its keys one by one, as {0}.{1}",
                                                     name, example_key(name))
                                       : fmt::format("unknown key {}: {}", name, key_hint(name)));
      return;
    }
    const std::optional<toml::table> parsed = parse_value(value, *key);
    if (!parsed) {
      written_.in_doubt.insert(name);
      written_.mistakes.add(where, fmt::format("{} must be {}, found '{}'", name,
                                               with_article(type_name(*key)), in_one_line(value)));
      return;
    }
    set(*parsed->get("v"), *key, where);
    for (Note& n : notes_) written_.mistakes.add(std::move(n.where), std::move(n.what));
    notes_.clear();
  }

  bool syntax_error() const { return syntax_error_; }

 private:
  struct Note {
    uint32_t line;
    std::string where, what;
  };

  static std::string example_key(const std::string& table) {
    for (const Key& key : keys())
      if (key.table() == table) return key.leaf() + "=VALUE";
    return "KEY=VALUE";
  }

  // A TOML value; for a key that holds a string, text that needs no quotes on the command line.
  static std::optional<toml::table> parse_value(const std::string& value, const Key& key) {
    const auto parse = [](const std::string& text) -> std::optional<toml::table> {
      try {
        toml::table table = toml::parse("v = " + text);
        if (table.size() == 1) return table;
      } catch (const toml::parse_error&) {
      }
      return std::nullopt;
    };
    std::optional<toml::table> parsed = parse(value);
    const bool text_list = type_name(key) == "list of strings";
    if (is_text(key) && (!parsed || !parsed->get("v")->is_string())) return parse(quoted(value));
    if (text_list && value.empty()) return parse("[]");
    if (text_list && !parsed && value.find('[') == std::string::npos) return parse(quoted(value));
    return parsed;
  }

  void note(uint32_t line, std::string where, std::string what) {
    notes_.push_back({line, std::move(where), std::move(what)});
  }

  void walk(const toml::table& table, const std::string& prefix) {
    for (const auto& [toml_key, node] : table) {
      const std::string name = prefix + std::string(toml_key.str());
      const uint32_t line = toml_key.source().begin.line;
      const std::string where = fmt::format("{}:{}", written_.file, line);
      if (const Key* key = find_key(name)) {
        set(node, *key, where, line);
      } else if (find_table(name)) {
        if (node.is_table())
          walk(*node.as_table(), name + ".");
        else
          note(line, where,
               fmt::format("{0} is a table, found {1}: write [{0}] and its keys below, or {0}.{2}", name,
                           described(node), example_key(name)));
      } else if (node.is_table()) {
        unknown_table(*node.as_table(), name, where, line);
      } else {
        note(line, where, fmt::format("unknown key {}: {}", name, key_hint(name)));
        doubt_all_near(name);
      }
    }
  }

  // What stands in it is read as if its name were right, so that mistakes inside it are told at once.
  void unknown_table(const toml::table& table, const std::string& name, const std::string& where,
                     uint32_t line) {
    if (name == "actor_rollout_ref") {
      note(line, where, "verl's actor_rollout_ref falls away here: write [actor], [rollout], [model]");
      return walk(table, "");
    }
    const std::string near = nearest_table(name);
    note(line, where,
         near.empty() ? fmt::format("unknown table [{}]: docs/configuration.md lists all tables", name)
                      : fmt::format("unknown table [{}]: did you mean [{}]?", name, near));
    if (!near.empty()) walk(table, near + ".");
  }

  // A misspelt key leaves the one that was meant at its default: no further complaint about that one.
  void doubt_all_near(const std::string& unknown) {
    const std::string hint = key_hint(unknown);
    for (const Key& key : keys())
      if (hint.find(key.name) != std::string::npos) written_.in_doubt.insert(key.name);
  }

  void set(const toml::node& node, const Key& key, const std::string& where, uint32_t line = 0) {
    written_.origins[key.name] = where;
    std::string wrong = negative_violation(node, key);
    if (wrong.empty()) {
      if (!store(node, key, written_.config))
        wrong = fmt::format("must be {}, found {}{}", with_article(type_name(key)), described(node),
                            type_hint(node, key));
      else
        wrong = rule_violation(key, written_.config);
    }
    if (wrong.empty()) {
      written_.in_doubt.erase(key.name);
    } else {
      written_.in_doubt.insert(key.name);
      note(line, where, key.name + " " + wrong);
    }
  }

  Written& written_;
  std::vector<Note> notes_;
  bool syntax_error_ = false;
};

}  // namespace

const std::string& Written::where(const std::string& key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? file : found->second;
}

Written read_toml(const std::string& text, const std::string& file,
                  const std::vector<std::string>& overrides) {
  Written written;
  written.file = file;
  Reader reader(written);
  reader.read_file(text);
  for (const std::string& argument : overrides) reader.read_override(argument);
  if (reader.syntax_error())
    for (const Key& key : keys())
      if (!written.origins.count(key.name)) written.in_doubt.insert(key.name);
  return written;
}

}  // namespace trireme::config
