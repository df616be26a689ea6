#include <fmt/format.h>

#include <algorithm>

#include "launcher/verl/import.h"

namespace trireme::verl {
namespace {

std::string section(const Import& import, Fate fate, const char* title) {
  std::string text;
  for (const Entry& entry : import.entries)
    if (entry.fate == fate)
      text += fmt::format("  {}{} -> {}\n", entry.key,
                          entry.key[0] == '~' ? "" : fmt::format("={}", entry.written), entry.text);
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

std::string list(const std::vector<std::string>& lines, const char* title) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("  {}\n", line);
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

}  // namespace

std::string report(const Import& import) {
  const auto count = [&](Fate fate) {
    return std::count_if(import.entries.begin(), import.entries.end(),
                         [&](const Entry& entry) { return entry.fate == fate; });
  };
  std::vector<std::string> defaults;
  for (const Line& line : import.lines)
    if (line.from.empty()) defaults.push_back(fmt::format("{} = {}", line.key, line.value));
  std::string text =
      fmt::format("{} keys: {} mapped, {} needless here, {} unsupported\n", import.entries.size(),
                  count(Fate::mapped), count(Fate::needless), count(Fate::unsupported));
  text += section(import, Fate::mapped, "mapped");
  text += section(import, Fate::needless, "needless here");
  text += section(import, Fate::unsupported, "unsupported");
  text += list(defaults, "not given, and other in verl than here: verl's defaults");
  text += list(import.notes, "to look at");
  text += list(import.conflicts, "does not fit together (`trireme config check` will say so too)");
  return text;
}

}  // namespace trireme::verl
