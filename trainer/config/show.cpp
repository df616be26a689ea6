#include "trainer/config/show.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "trainer/config/names.h"
#include "trainer/config/schema.h"

namespace trireme::config {
namespace {

constexpr size_t kTextWidth = 88;

// Breaks at spaces; every line starts with `indent`.
std::string wrapped(const std::string& text, const std::string& indent) {
  std::string out, line;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > kTextWidth) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + indent + line + "\n";
}

// "integer, at least 1; in prompts"
std::string what_it_may_be(const Key& key) {
  std::string text = key.rule.choices.empty() ? type_name(key) : range_text(key);
  if (const std::string range = range_text(key); key.rule.choices.empty() && !range.empty())
    text += ", " + range;
  if (!key.unit.empty()) text += fmt::format(" ({})", key.unit);
  return text;
}

// The value that shows how the key is written: for a choice or a number its default, else a placeholder.
std::string example_value(const Key& key) {
  const std::string value = default_text(key);
  return value == "\"\"" || value == "[]" ? "..." : value;
}

std::string unquoted(std::string value) {
  if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
  return value;
}

std::string explain_key(const Key& key) {
  const auto row = [](const char* name, const std::string& value) {
    return fmt::format("  {:<9} {}\n", name, value);
  };
  std::string text = key.name + "\n" + wrapped(key.explanation, "  ") + "\n";
  text += row("value", what_it_may_be(key)) + row("default", default_text(key));
  if (!key.verl.empty()) text += row("in verl", key.verl);
  const std::string value = example_value(key);
  text += row("set it", fmt::format("[{}] {} = {}", key.table(), key.leaf(),
                                    value == "..." ? (is_text(key) ? "\"...\"" : "[\"...\"]") : value)) +
          row("", fmt::format("or, on the command line, {}={}", key.name, unquoted(value)));
  return text;
}

// Keys of the table itself, then the names of the tables below it.
std::string explain_table(const Table& table) {
  std::string text = fmt::format("[{}]\n", table.name) + wrapped(table.explanation, "  ") + "\n";
  size_t width = 0;
  for (const Key& key : keys())
    if (key.table() == table.name) width = std::max(width, key.leaf().size());
  for (const Key& key : keys())
    if (key.table() == table.name)
      text += fmt::format("  {:<{}}  {}, default {}\n", key.leaf(), width, what_it_may_be(key),
                          default_text(key));
  for (const Table& other : tables())
    if (other.name.rfind(table.name + ".", 0) == 0)
      text += fmt::format("\n  [{}] {}\n", other.name, other.explanation);
  return text + fmt::format("\n`trireme config explain {}.KEY` says more about one of them.\n", table.name);
}

// A cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

std::string show(const LoadedConfig& loaded) {
  struct Row {
    const Key* key;
    std::string setting, origin;
  };
  std::vector<Row> rows;
  size_t width = 0;
  for (const Key& key : keys()) {
    const auto found = loaded.origins.find(key.name);
    std::string origin = found == loaded.origins.end() ? "default" : found->second;
    if (origin.rfind("command line", 0) == 0) origin = "command line";
    rows.push_back({&key, fmt::format("{} = {}", key.leaf(), value_text(key, loaded.config)), origin});
    // A long list or path does not push all origins to the right.
    if (rows.back().setting.size() <= 48) width = std::max(width, rows.back().setting.size());
  }
  std::string text, table;
  for (const Row& row : rows) {
    if (row.key->table() != table) {
      table = row.key->table();
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", table);
    }
    text += fmt::format("{:<{}}  # {}\n", row.setting, width, row.origin);
  }
  return text;
}

std::string explain(const std::string& key_or_table) {
  std::string name = key_or_table;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  if (const Key* key = find_key(name)) return explain_key(*key);
  if (const Table* table = find_table(name)) return explain_table(*table);
  fail(ErrorCode::invalid_config, "there is no key or table {}: {}", name, key_hint(name));
}

std::string configuration_markdown() {
  std::string text =
      "<!-- Generated from trainer/config: `trireme docs configuration > docs/configuration.md`. -->\n"
      "# Configuration\n\n"
      "A run is described by one TOML file (`configs/` has complete ones), and any key can be set again on "
      "the command "
      "line: `trireme run configs/quickstart.toml rollout.n=16 actor.optim.lr=1e-5`. The last setting of a "
      "key wins; "
      "text needs no quotes there, a list is written `'data.train_files=[\"a.jsonl\", \"b.jsonl\"]'`. "
      "Relative paths "
      "start at the working directory.\n\n"
      "- `trireme config check CONFIG [key=value ...]` lists every mistake, with its place.\n"
      "- `trireme config show CONFIG [key=value ...]` prints every value and where it comes from.\n"
      "- `trireme config explain KEY` prints what stands here.\n\n"
      "Names are verl's where the meaning is the same, without its prefix `actor_rollout_ref.`; where the "
      "name "
      "differs, verl's is given. Every run keeps its resolved configuration, with every key, in "
      "`config.toml` of its "
      "run folder.\n\n"
      "Batch sizes count prompts over all ranks. They need not divide by the number of ranks, but there must "
      "be a "
      "prompt for each rank that trains.\n";
  for (const Table& table : tables()) {
    text += fmt::format("\n## [{}]\n\n{}\n\n| key | value | default | |\n|---|---|---|---|\n", table.name,
                        table.explanation);
    for (const Key& key : keys()) {
      if (key.table() != table.name) continue;
      std::string explanation = key.explanation;
      if (!key.verl.empty()) explanation += fmt::format(" In verl: `{}`.", key.verl);
      text += fmt::format("| `{}` | {} | `{}` | {} |\n", key.leaf(), cell(what_it_may_be(key)),
                          cell(default_text(key)), cell(explanation));
    }
  }
  return text;
}

}  // namespace trireme::config
