// An import in the making: what is asked for by rules.h, and what has been decided.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/verl/import.h"

namespace trireme::verl {

class Draft {
 public:
  Draft(const Settings& settings, const Environment& environment);

  const Settings& settings() const { return settings_; }
  /// Null if the key was not set, or set to null, or its value is not known.
  const Setting* given(const std::string& key) const;
  std::string text(const std::string& key, const std::string& verl_default) const;
  /// What is not of the type is as good as not given; its entry says so when it is decided.
  int64_t whole(const std::string& key, int64_t verl_default) const;
  bool flag(const std::string& key, bool verl_default) const;

  /// Sets our key by what one or several of verl's say. Empty `from`: by verl's default. Returns what is
  /// wrong with that value, and then sets nothing; empty if all is well. The first of several values holds.
  std::string set(const std::string& to, const Value& value, const std::string& from);
  bool is_set(const std::string& to) const { return lines_.count(to) != 0; }
  const std::map<std::string, Line>& lines() const { return lines_; }

  /// Decide what becomes of a setting; nothing happens if the key was not set, or is decided already.
  void mapped(const std::string& key, const std::string& text);
  void needless(const std::string& key, const std::string& why);
  void unsupported(const std::string& key, const std::string& what_to_do);
  bool decided(const std::string& key) const { return entries_.count(key) != 0; }
  const Entry& entry(const std::string& key) const { return entries_.at(key); }

  /// Sets `to` by the value of verl's `key` (an error makes it unsupported), and decides.
  void map(const std::string& key, const std::string& to, const Value& value, const std::string& text = "");

  void note(std::string text) { notes_.push_back(std::move(text)); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void decide(const std::string& key, Fate fate, std::string text);

  const Settings& settings_;
  std::string home_;
  std::map<std::string, Line> lines_;
  std::map<std::string, Entry> entries_;
  std::vector<std::string> notes_;
};

std::optional<int64_t> as_whole(const std::string& text);
std::optional<double> as_number(const std::string& text);
std::optional<bool> as_flag(const std::string& text);
/// "True" and "true", "1" and "1.0".
bool same_value(const std::string& a, const std::string& b);
/// key=value, as it was given.
std::string shown(const Setting& setting);

}  // namespace trireme::verl
