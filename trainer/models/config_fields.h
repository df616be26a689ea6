// Reads a config.json strictly: a field that nobody asked for is a mistake, since it may change the numbers.
// Torch-free.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"

namespace trireme::models {

/// A value as an error shows it: long ones are cut, deep ones only named.
std::string shown(const nlohmann::json& value);

/// One JSON object. A field that is null counts as absent. Mistakes are collected under `prefix` and the
/// field's name; a value is returned all the same, so that reading goes on.
class ConfigFields {
 public:
  /// Borrows both.
  ConfigFields(const nlohmann::json& object, Mistakes& mistakes, std::string prefix = "");

  bool has(const char* name);
  /// A whole number in [1, highest]. Without a fallback the field must be there.
  int64_t count(const char* name, int64_t highest, int64_t fallback = 0);
  /// Above 0. Without a fallback the field must be there.
  double number(const char* name);
  double number(const char* name, double fallback);
  bool flag(const char* name, bool fallback);
  std::string text(const char* name, const std::string& fallback);
  /// A reader of an object within this one.
  ConfigFields within(const nlohmann::json& object, const std::string& name) const {
    return {object, mistakes_, prefix_ + name + "."};
  }
  /// The value as it stands, for a field of a form of its own; null where it is absent.
  const nlohmann::json& value(const char* name);

  /// Refuses a field whose value asks for what the decoder does not do.
  void must_be(const char* name, std::initializer_list<nlohmann::json> allowed);
  /// Fields that do not change what the decoder computes.
  void harmless(std::initializer_list<const char*> names);
  /// Refuses a field, saying why.
  void refuse(const char* name, const std::string& why);
  void mistake(const char* name, const std::string& what);

  /// Call last: every field that was not named above is a mistake.
  void refuse_the_rest();

 private:
  const nlohmann::json& object_;
  Mistakes& mistakes_;
  std::string prefix_;
  std::vector<std::string> known_;
};

}  // namespace trireme::models
