// What a user's verl command or YAML says, key by key, before anything is made of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/verl/shell_variables.h"

namespace trireme::verl {

/// null, one scalar, or a list of scalars. Tables are taken apart into dotted keys; an empty one is null.
struct Value {
  enum class Kind { null, scalar, list };
  Kind kind = Kind::null;
  std::string text;                // of a scalar, without quotes
  std::vector<std::string> items;  // of a list

  bool is_null() const { return kind == Kind::null; }
  /// As it may be written behind key=.
  std::string shown() const;
};
Value scalar(std::string text);

struct Setting {
  std::string key;  // "actor_rollout_ref.actor.optim.lr"
  Value value;
  std::string where;                  // "run.sh:12"
  std::vector<std::string> missing;   // as in ShellWord
  std::vector<std::string> doubtful;  // as in ShellWord
};

struct Settings {
  std::string program;            // "verl.trainer.main_ppo"; empty if there is only YAML
  std::vector<Setting> settings;  // each key once, with its last value, in the order of their first mention
  std::vector<std::string> removed;  // keys of ~key, that no later one sets again
  std::vector<std::string> options;  // "--config-name=ppo_megatron_trainer"
  std::vector<std::string> notes;    // what else is to be said, one line each

  const Setting* find(const std::string& key) const;
};

/// Adds to `settings` what the text says: YAML, or a shell script with one command that has a.b.c=d
/// overrides (+, ++ and ~ before a key are understood). Later settings win. `name` is shown as the place.
/// Throws invalid_config where the text is neither, or cannot be read to its end.
void read_settings(const std::string& text, const std::string& name, const Environment& environment,
                   Settings& settings);

/// Replaces ${a.b}, ${.b}, ${oc.select:a.b,default} and ${oc.env:NAME,default} in all values. What refers to
/// a key that is not set is null, as far as nothing else is said.
void resolve_interpolations(Settings& settings, const Environment& environment);

}  // namespace trireme::verl
