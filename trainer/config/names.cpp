#include "trainer/config/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "runtime/base/error.h"
#include "trainer/config/schema.h"

namespace trireme::config {
namespace {

using Names = std::vector<std::string>;

std::string first_part(const std::string& name) {
  return name.substr(0, name.find('.'));
}
std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

// verl's names stand in one string, comma-separated.
bool is_verl_name(const Key& key, const std::string& name) {
  return (", " + key.verl + ", ").find(", " + name + ", ") != std::string::npos;
}

Names keys_with_leaf(const std::string& leaf) {
  Names names;
  for (const Key& key : keys())
    if (key.leaf() == leaf) names.push_back(key.name);
  return names;
}

// Of keys with the right last part, those in the right place; all of them if none is.
Names best_placed(const std::string& unknown, const Names& candidates) {
  Names neighbours;
  for (const std::string& name : candidates)
    if (first_part(name) == first_part(unknown)) neighbours.push_back(name);
  const Names& left = neighbours.empty() ? candidates : neighbours;
  if (left.size() > 1)
    if (const std::string near = nearest(unknown, left); !near.empty()) return {near};
  return Names(left.begin(), left.begin() + static_cast<ptrdiff_t>(std::min<size_t>(left.size(), 3)));
}

Names candidates_for(const std::string& unknown) {
  if (find_key(unknown)) return {unknown};
  for (const Key& key : keys())
    if (is_verl_name(key, unknown)) return {key.name};
  if (const Names same = keys_with_leaf(last_part(unknown)); !same.empty()) return best_placed(unknown, same);
  // A name that was broken off, after three letters or more.
  for (const Key& key : keys())
    if (unknown.size() >= key.table().size() + 4 && key.name.rfind(unknown, 0) == 0) return {key.name};
  Names names, leaves;
  for (const Key& key : keys()) {
    names.push_back(key.name);
    leaves.push_back(key.leaf());
  }
  if (const std::string near = nearest(unknown, names); !near.empty()) return {near};
  if (const std::string leaf = nearest(last_part(unknown), leaves); !leaf.empty())
    return best_placed(unknown, keys_with_leaf(leaf));
  return {};
}

}  // namespace

std::string key_hint(const std::string& unknown) {
  static const std::string verl_prefix = "actor_rollout_ref.";
  const bool from_verl = unknown.rfind(verl_prefix, 0) == 0;
  if (unknown.find('.') == std::string::npos)
    if (const std::string table = nearest_table(unknown); !table.empty())
      return fmt::format("did you mean the table [{}]?", table);
  const Names candidates = candidates_for(from_verl ? unknown.substr(verl_prefix.size()) : unknown);
  if (!candidates.empty()) return fmt::format("did you mean {}?", fmt::join(candidates, " or "));
  const size_t dot = unknown.rfind('.');
  if (dot != std::string::npos && find_table(unknown.substr(0, dot)))
    return fmt::format("`trireme config explain {}` lists this table's keys", unknown.substr(0, dot));
  return "docs/configuration.md lists all keys";
}

std::string nearest_table(const std::string& unknown) {
  Names names, leaves;
  for (const Table& table : tables()) {
    names.push_back(table.name);
    leaves.push_back(last_part(table.name));
  }
  if (const std::string near = nearest(unknown, names); !near.empty()) return near;
  const std::string leaf = nearest(last_part(unknown), leaves);
  // A table under a wrong parent: the one in the right family, if there are several.
  std::string found;
  for (const std::string& name : names)
    if (!leaf.empty() && last_part(name) == leaf &&
        (found.empty() || first_part(name) == first_part(unknown)))
      found = name;
  return found;
}

}  // namespace trireme::config
