#include "trainer/models/config_fields.h"

#include <algorithm>

namespace trireme::models {

std::string shown(const nlohmann::json& value) {
  if (value.is_structured())
    for (const auto& element : value)
      if (element.is_structured()) return value.is_array() ? "a list" : "an object";
  const std::string text = value.dump();
  return text.size() <= 100 ? text : text.substr(0, 100) + "...";
}

ConfigFields::ConfigFields(const nlohmann::json& object, Mistakes& mistakes, std::string prefix)
    : object_(object), mistakes_(mistakes), prefix_(std::move(prefix)) {}

const nlohmann::json& ConfigFields::value(const char* name) {
  static const nlohmann::json absent;
  known_.push_back(name);
  const auto found = object_.find(name);
  return found == object_.end() ? absent : *found;
}

bool ConfigFields::has(const char* name) {
  return !value(name).is_null();
}

void ConfigFields::mistake(const char* name, const std::string& what) {
  mistakes_.add(prefix_ + name, what);
}

int64_t ConfigFields::count(const char* name, int64_t highest, int64_t fallback) {
  const nlohmann::json& found = value(name);
  if (found.is_null()) {
    if (fallback == 0) mistake(name, "is missing");
    return std::max<int64_t>(fallback, 1);
  }
  // An unsigned number beyond int64 would wrap around.
  const bool fits = found.is_number_unsigned() ? found.get<uint64_t>() <= static_cast<uint64_t>(highest)
                                               : found.is_number_integer() && found.get<int64_t>() <= highest;
  if (!fits || found.get<int64_t>() <= 0) {
    mistake(name, fmt::format("must be a whole number from 1 to {}, is {}", highest, shown(found)));
    return 1;
  }
  return found.get<int64_t>();
}

double ConfigFields::number(const char* name, double fallback) {
  const nlohmann::json& found = value(name);
  if (found.is_null()) return fallback;
  if (!found.is_number() || found.get<double>() <= 0) {
    mistake(name, fmt::format("must be a number above 0, is {}", shown(found)));
    return fallback;
  }
  return found.get<double>();
}

double ConfigFields::number(const char* name) {
  if (!has(name)) mistake(name, "is missing");
  return number(name, 1.0);
}

bool ConfigFields::flag(const char* name, bool fallback) {
  const nlohmann::json& found = value(name);
  if (found.is_null()) return fallback;
  if (!found.is_boolean()) {
    mistake(name, fmt::format("must be true or false, is {}", shown(found)));
    return fallback;
  }
  return found.get<bool>();
}

std::string ConfigFields::text(const char* name, const std::string& fallback) {
  const nlohmann::json& found = value(name);
  if (found.is_null()) return fallback;
  if (!found.is_string()) {
    mistake(name, fmt::format("must be a text, is {}", shown(found)));
    return fallback;
  }
  return found.get<std::string>();
}

void ConfigFields::must_be(const char* name, std::initializer_list<nlohmann::json> allowed) {
  const nlohmann::json& found = value(name);
  if (found.is_null() || std::find(allowed.begin(), allowed.end(), found) != allowed.end()) return;
  mistake(name, fmt::format("{} is not supported; it must be {}", shown(found), shown(*allowed.begin())));
}

void ConfigFields::harmless(std::initializer_list<const char*> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void ConfigFields::refuse(const char* name, const std::string& why) {
  if (has(name)) mistake(name, why);
}

void ConfigFields::refuse_the_rest() {
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string meant = nearest(name, known_);
    mistake(name.c_str(), "is not a field that we know, so it may change what the model computes" +
                              (meant.empty() ? "; remove it if it does not" : "; is '" + meant + "' meant?"));
  }
}

}  // namespace trireme::models
