#include "launcher/verl/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/verl/rules.h"
#include "runtime/base/error.h"
#include "trainer/config/checks.h"
#include "trainer/config/load.h"
#include "trainer/config/schema.h"
#include "trainer/config/written.h"

namespace trireme::verl {
namespace {

Value renamed(const Row& row, const Value& value) {
  for (const auto& [theirs, ours] : row.names)
    if (value.kind == Value::Kind::scalar && same_value(value.text, theirs)) return scalar(ours);
  return value;
}

// A value with holes is not guessed at.
void decide_incomplete(Draft& draft, const Setting& setting) {
  const Row* row = find_row(setting.key);
  if (setting.missing.empty() || (row && row->fate == Fate::needless)) return;
  draft.unsupported(setting.key,
                    fmt::format("its value needs {}, which is not known here: set the variable before "
                                "(NAME=value trireme import-verl ...), or write the value into the TOML",
                                fmt::join(setting.missing, " and ")));
}

void decide_switched_off(Draft& draft, const Setting& setting) {
  for (const Switch& toggle : switches()) {
    if (setting.key.rfind(toggle.prefix, 0) != 0 || setting.key == toggle.key) continue;
    const Setting* given = draft.given(toggle.key);
    bool is_off = !given;
    for (const std::string& off : toggle.off)
      is_off = is_off || (given && same_value(given->value.text, off));
    const bool of_critic = toggle.key == "critic.enable";
    if (of_critic) is_off = !has_critic(draft);
    if (is_off)
      draft.needless(setting.key, of_critic && !given
                                      ? "there is no critic: algorithm.adv_estimator is not gae"
                                      : toggle.text);
  }
}

bool in_a_rule(const std::string& key) {
  return std::any_of(rules().begin(), rules().end(), [&](const Rule& rule) {
    return std::any_of(rule.keys.begin(), rule.keys.end(),
                       [&](const std::string& k) { return k == key || k == key + ".*"; });
  });
}

void decide_by_row(Draft& draft, const Setting& setting) {
  const std::string& leaf = setting.key.substr(setting.key.rfind('.') + 1);
  if (leaf == "_target_") return draft.needless(setting.key, "names a Python class");
  const Row* row = find_row(setting.key);
  if ((row || in_a_rule(setting.key)) && setting.value.is_null() && setting.missing.empty())
    return draft.needless(setting.key, "null asks for nothing");
  if (!row && in_a_rule(setting.key))
    return draft.unsupported(setting.key, fmt::format("{} is no value for it", setting.value.shown()));
  if (!row) {
    std::vector<std::string> known;
    for (const Row& r : rows()) known.push_back(r.key);
    for (const Rule& rule : rules()) known.insert(known.end(), rule.keys.begin(), rule.keys.end());
    const std::string near = nearest(setting.key, known);
    return draft.unsupported(setting.key, near.empty()
                                              ? "not a key of verl's that is known here: look it up in "
                                                "docs/configuration.md"
                                              : fmt::format("not a key of verl's; {} is one", near));
  }
  if (row->fate == Fate::needless) return draft.needless(setting.key, row->text);
  if (row->fate == Fate::mapped)
    return draft.map(setting.key, row->to, renamed(*row, setting.value), row->text);
  for (const std::string& off : row->off)
    if (setting.value.kind == Value::Kind::scalar && same_value(setting.value.text, off))
      return draft.needless(setting.key, "as it is here");
  draft.unsupported(setting.key, row->text);
}

/// verl's defaults, where ours would mean something else.
void write_defaults(Draft& draft) {
  for (const Row& row : rows())
    if (row.fate == Fate::mapped && !row.verl_default.empty() && !draft.is_set(row.to) &&
        (has_critic(draft) || row.key.rfind("critic.", 0) != 0)) {
      const std::string wrong = draft.set(row.to, renamed(row, scalar(row.verl_default)), "");
      const bool there = config::find_key(row.to) != nullptr;
      if (!wrong.empty() && there)
        draft.note(
            fmt::format("{} is {} in verl where nothing is said: {}", row.key, row.verl_default, wrong));
    }
}

std::vector<Line> lines_of(const Draft& draft) {
  std::vector<Line> lines;
  for (const config::Key& key : config::keys()) {
    const auto found = draft.lines().find(key.name);
    if (found == draft.lines().end()) continue;
    const bool by_default = found->second.from.empty();
    const config::Written written = config::read_toml("", "", {key.name + "=" + found->second.value});
    if (!by_default || config::value_text(key, written.config) != config::default_text(key))
      lines.push_back({key.name, config::value_text(key, written.config), found->second.from});
  }
  return lines;
}

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string toml_of(const Import& import, const std::string& source) {
  std::string text = fmt::format("# By `trireme import-verl {}`.\n", in_one_line(source));
  bool heading = false;
  for (const Entry& entry : import.entries) {
    if (entry.fate != Fate::unsupported) continue;
    if (!heading) text += "# Not taken over:\n";
    heading = true;
    text += in_one_line(fmt::format("#   {}={}: {}", entry.key, entry.written, entry.text)) + "\n";
  }
  std::string table;
  for (const Line& line : import.lines) {
    const config::Key& key = *config::find_key(line.key);
    if (key.table() != table) text += fmt::format("\n[{}]\n", table = key.table());
    text += fmt::format("{} = {}  # {}\n", key.leaf(), line.value,
                        line.from.empty() ? "verl's default" : in_one_line(line.from));
  }
  return text;
}

void find_conflicts(Import& import) {
  config::Written written = config::read_toml(import.toml, "the result", {});
  config::check_values(written);
  import.conflicts = written.mistakes.lines();
  if (!import.conflicts.empty() || written.config.run.ranks == 0) return;
  try {
    config::check_ranks(written.config, static_cast<int>(written.config.run.ranks));
  } catch (const Error& error) {
    import.conflicts.push_back(error.message());
  }
}

}  // namespace

Import import(Settings settings, const std::string& source, const Environment& environment) {
  resolve_interpolations(settings, environment);
  Draft draft(settings, environment);
  for (const Setting& setting : settings.settings) {
    decide_incomplete(draft, setting);
    decide_switched_off(draft, setting);
  }
  for (const Rule& rule : rules()) rule.apply(draft);
  // In the table's order, so that a key's current name goes before its older ones.
  for (const Row& row : rows())
    if (const Setting* setting = draft.given(row.key)) decide_by_row(draft, *setting);
  for (const Setting& setting : settings.settings) decide_by_row(draft, setting);
  write_defaults(draft);

  Import result;
  for (const Setting& setting : settings.settings) result.entries.push_back(draft.entry(setting.key));
  for (const std::string& key : settings.removed)
    result.entries.push_back({"~" + key, "", "", Fate::needless, "taken away: verl's default holds"});
  for (const std::string& option : settings.options)
    if (option.find("ppo_trainer") == std::string::npos &&
        option.find("ppo_megatron_trainer") == std::string::npos && option.rfind("--config-path", 0) != 0)
      draft.note(option +
                 ": that file is not read by itself; give it too: `trireme import-verl FILE.yaml COMMAND`");
  for (const Setting& setting : settings.settings)
    if (!setting.doubtful.empty())
      draft.note(
          fmt::format("{}: {} is set within if, for or case, which are not followed: look at the value",
                      shown(setting), fmt::join(setting.doubtful, ", ")));
  result.notes = settings.notes;
  result.notes.insert(result.notes.end(), draft.notes().begin(), draft.notes().end());
  result.lines = lines_of(draft);
  result.toml = toml_of(result, source);
  find_conflicts(result);
  return result;
}

}  // namespace trireme::verl
