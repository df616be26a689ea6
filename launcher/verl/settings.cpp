#include "launcher/verl/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "launcher/verl/shell_script.h"
#include "runtime/base/error.h"

namespace trireme::verl {
namespace {

bool is_null_word(const std::string& text) {
  return text.empty() || text == "null" || text == "Null" || text == "NULL" || text == "None" || text == "~";
}

// "a.b.c=d" with +, ++ or ~ before it; a key has a dot, or stands behind such a sign.
size_t key_end(const std::string& word) {
  const size_t from = word.find_first_not_of("+~");
  if (from == std::string::npos || from > 2) return std::string::npos;
  size_t at = from;
  bool dot = false;
  for (; at < word.size() && (std::isalnum(static_cast<unsigned char>(word[at])) ||
                              std::string("_.@/").find(word[at]) != std::string::npos);
       ++at)
    dot = dot || word[at] == '.';
  if (at == from || (!dot && from == 0)) return std::string::npos;
  if (at == word.size()) return word[0] == '~' ? at : std::string::npos;
  return word[at] == '=' ? at : std::string::npos;
}

Value value_of(const YAML::Node& node) {
  Value value;
  if (node.IsScalar()) {
    const bool quoted = node.Tag() == "!";
    if (quoted || !is_null_word(node.Scalar())) value = scalar(node.Scalar());
  } else if (node.IsSequence()) {
    value.kind = Value::Kind::list;
    for (const auto& item : node) value.items.push_back(item.IsScalar() ? item.Scalar() : YAML::Dump(item));
  }
  return value;
}

class Collector {
 public:
  Collector(Settings& settings, std::string name) : settings_(settings), name_(std::move(name)) {}

  void set(Setting setting) {
    auto& removed = settings_.removed;
    removed.erase(std::remove(removed.begin(), removed.end(), setting.key), removed.end());
    for (Setting& known : settings_.settings)
      if (known.key == setting.key) {
        known = std::move(setting);
        return;
      }
    settings_.settings.push_back(std::move(setting));
  }

  /// The key, or all keys of the table of that name.
  void remove(const std::string& key) {
    auto& all = settings_.settings;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Setting& setting) {
                               return setting.key == key || setting.key.rfind(key + ".", 0) == 0;
                             }),
              all.end());
    settings_.removed.push_back(key);
  }

  void table(const YAML::Node& node, const std::string& prefix, Setting like) {
    for (const auto& entry : node) {
      const std::string key = prefix + entry.first.as<std::string>();
      if (like.where.empty() || prefix.empty()) like.where = place(entry.first.Mark().line + 1);
      Setting setting = like;
      setting.where = from_file_ ? place(entry.first.Mark().line + 1) : like.where;
      if (entry.second.IsMap() && entry.second.size() > 0) {
        table(entry.second, key + ".", setting);
      } else {
        setting.key = key;
        setting.value = value_of(entry.second);
        set(std::move(setting));
      }
    }
  }

  void yaml(const YAML::Node& root) {
    from_file_ = true;
    table(root, "", {});
    from_file_ = false;
  }

  void override_word(const ShellWord& word) {
    const size_t end = key_end(word.text);
    const size_t from = word.text.find_first_not_of("+~");
    Setting setting{word.text.substr(from, end - from), {}, place(word.line), word.missing, word.doubtful};
    if (word.text[0] == '~') return remove(setting.key);
    std::string text = word.text.substr(end + 1);
    if (text.empty() || (text[0] != '[' && text[0] != '{' && text[0] != '"' && text[0] != '\'')) {
      setting.value = is_null_word(text) ? Value{} : scalar(std::move(text));
      return set(std::move(setting));
    }
    try {
      const YAML::Node node = YAML::Load(spaced(text));
      if (node.IsMap() && node.size() > 0) return table(node, setting.key + ".", setting);
      setting.value = value_of(node);
    } catch (const YAML::Exception&) {
      setting.value = scalar(std::move(text));
    }
    set(std::move(setting));
  }

 private:
  std::string place(int line) const { return fmt::format("{}:{}", name_, line); }

  // Hydra reads {a:1} as a table, YAML only {a: 1}.
  static std::string spaced(const std::string& text) {
    if (text[0] != '{') return text;
    std::string out;
    char quote = '\0';
    for (const char c : text) {
      out += c;
      if (quote != '\0')
        quote = c == quote ? '\0' : quote;
      else if (c == '"' || c == '\'')
        quote = c;
      else if (c == ':')
        out += ' ';
    }
    return out;
  }

  Settings& settings_;
  std::string name_;
  bool from_file_ = false;
};

// Whether a top-level key of verl's stands there, so that a broken YAML is not taken for a script.
bool looks_like_yaml(const std::string& text, const std::string& name) {
  for (const char* ending : {".yaml", ".yml"})
    if (name.size() > 5 &&
        name.compare(name.size() - std::string(ending).size(), std::string::npos, ending) == 0)
      return true;
  static const std::set<std::string> roots{"data",   "actor_rollout_ref", "critic", "algorithm", "trainer",
                                           "reward", "reward_model",      "hydra",  "defaults"};
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t colon = text.find(':', at);
    if (colon < end && roots.count(text.substr(at, colon - at))) return true;
    at = end + 1;
  }
  return false;
}

size_t overrides_in(const ShellCommand& command) {
  return static_cast<size_t>(
      std::count_if(command.words.begin(), command.words.end(),
                    [](const ShellWord& word) { return key_end(word.text) != std::string::npos; }));
}

void take_command(const ShellCommand& command, Collector& collector, Settings& settings) {
  const auto& words = command.words;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (key_end(text) != std::string::npos) {
      collector.override_word(words[i]);
    } else if (text == "-m" && i + 1 < words.size()) {
      settings.program = words[++i].text;
    } else if (text.rfind("--config", 0) == 0 || text == "-cn" || text == "-cp") {
      settings.options.push_back(text);
      if (text.find('=') == std::string::npos && i + 1 < words.size())
        settings.options.back() += "=" + words[++i].text;
    } else if (text.size() > 3 && text.compare(text.size() - 3, 3, ".py") == 0) {
      settings.program = text;
    }
  }
}

void read_command(const std::string& text, const std::string& name, const Environment& environment,
                  Settings& settings) {
  const std::vector<ShellCommand> commands = read_shell(text, environment);
  const auto first = std::find_if(commands.begin(), commands.end(),
                                  [](const ShellCommand& command) { return overrides_in(command) > 0; });
  if (first == commands.end())
    fail(ErrorCode::invalid_config,
         "{}: neither verl's YAML nor a command with overrides such as data.train_batch_size=1024 was found",
         name);
  Collector collector(settings, name);
  take_command(*first, collector, settings);
  for (auto next = first + 1; next != commands.end(); ++next) {
    if (overrides_in(*next) == 0) continue;
    const int line = next->words[0].line;
    if (key_end(next->words[0].text) != std::string::npos) {
      settings.notes.push_back(
          fmt::format("{}:{}: a shell would end the command before this line (a comment or an empty line "
                      "after \\); what follows was read as part of it",
                      name, line));
      take_command(*next, collector, settings);
    } else {
      settings.notes.push_back(
          fmt::format("{}:{}: a second command with overrides; only the first was read", name, line));
    }
  }
}

}  // namespace

Value scalar(std::string text) {
  return {Value::Kind::scalar, std::move(text), {}};
}

std::string Value::shown() const {
  if (kind == Kind::null) return "null";
  return kind == Kind::scalar ? text : fmt::format("[{}]", fmt::join(items, ", "));
}

const Setting* Settings::find(const std::string& key) const {
  for (const Setting& setting : settings)
    if (setting.key == key) return &setting;
  return nullptr;
}

void read_settings(const std::string& text, const std::string& name, const Environment& environment,
                   Settings& settings) {
  if (!looks_like_yaml(text, name)) return read_command(text, name, environment, settings);
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap())
      fail(ErrorCode::invalid_config, "{}: a table of verl's keys was expected (data:, trainer:, ...)", name);
    Collector(settings, name).yaml(root);
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::invalid_config, "{}:{}:{}: {}", name, error.mark.line + 1, error.mark.column + 1,
         error.msg);
  }
}

}  // namespace trireme::verl
