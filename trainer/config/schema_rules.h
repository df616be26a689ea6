// How the table of keys is written, for the files that write it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainer/config/schema.h"

namespace trireme::config {

using Keys = std::vector<Key>;

void add_model(Keys& k);               // schema_keys_model.cpp
void add_reward(Keys& k);              // schema_keys_reward.cpp
void add_offload_folder(Keys& k);      // schema_keys_offload.cpp, as the next three
void add_actor_offload(Keys& k);
void add_critic_offload(Keys& k);
void add_reference_offload(Keys& k);
void add_preference_columns(Keys& k);  // schema_keys_preferences.cpp, as the next
void add_preferences(Keys& k);

/// The value's place in RunConfig.
#define AT(path)               \
  [](RunConfig & c) -> auto& { \
    return c.path;             \
  }

inline Rule any() {
  return {};
}
inline Rule at_least(double min) {
  return {.min = min};
}
inline Rule above(double min) {
  return {.min = min, .above_min = true};
}
inline Rule between(double min, double max) {
  return {.min = min, .max = max};
}
inline Rule from_below(double min, double max) {
  return {.min = min, .max = max, .below_max = true};
}
inline Rule above_to(double min, double max) {
  return {.min = min, .max = max, .above_min = true};
}
inline Rule positive_or(int64_t special) {
  return {.min = 1, .or_value = special};
}
inline Rule one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}

}  // namespace trireme::config
