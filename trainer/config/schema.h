// Every key of the configuration: where its value lives in RunConfig, what it may be, and what it does.
// Reading, checking, showing, explaining and docs/configuration.md all walk this one table (schema_keys.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme::config {

/// The value's place; the alternative is its type.
using Field = std::variant<bool& (*)(RunConfig&), int64_t& (*)(RunConfig&), uint64_t& (*)(RunConfig&),
                           double& (*)(RunConfig&), std::string& (*)(RunConfig&),
                           std::vector<std::string>& (*)(RunConfig&)>;

/// What a value may be, beyond its type.
struct Rule {
  std::optional<double> min = {}, max = {};
  bool above_min = false;                // min itself is excluded
  bool below_max = false;                // max itself is excluded
  std::optional<int64_t> or_value = {};  // allowed too, outside the range: -1, 0
  std::vector<std::string> choices = {};
};

struct Key {
  std::string name;  // "actor.optim.lr"
  Field field;
  Rule rule;
  std::string unit;         // "tokens"; may be empty
  std::string explanation;  // what it does, when to change it
  std::string verl = {};    // verl's name for it, where it differs (without actor_rollout_ref.)

  std::string table() const;  // "actor.optim"
  std::string leaf() const;   // "lr"
};

struct Table {
  std::string name;
  std::string explanation;
};

/// In the order of the documentation; the keys of one table stand together.
const std::vector<Key>& keys();
const std::vector<Table>& tables();
/// Null if there is none of that name.
const Key* find_key(const std::string& name);
const Table* find_table(const std::string& name);

/// "integer", "number", "true or false", "string", "list of strings".
std::string type_name(const Key& key);
bool is_text(const Key& key);
/// "at least 1, or -1", "one of bf16, fp32"; empty if everything of the type will do.
std::string range_text(const Key& key);
/// The value as TOML.
std::string value_text(const Key& key, const RunConfig& config);
std::string default_text(const Key& key);
/// What is wrong with the value that `config` holds, "must be at least 1, found 0"; empty if nothing is.
std::string rule_violation(const Key& key, const RunConfig& config);

/// Equal in every key.
bool operator==(const RunConfig& a, const RunConfig& b);

/// A TOML string, quoted and escaped.
std::string quoted(const std::string& text);

}  // namespace trireme::config
