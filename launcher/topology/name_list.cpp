#include "launcher/topology/name_list.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace trireme::topology {

NameList NameList::parse(const std::string& text) {
  NameList list;
  size_t at = 0;
  list.excludes = at < text.size() && text[at] == '^';
  if (list.excludes) ++at;
  list.exact = at < text.size() && text[at] == '=';
  if (list.exact) ++at;
  std::istringstream in(text.substr(at));
  for (std::string entry; std::getline(in, entry, ',');) {
    const auto colon = entry.find(':');
    const auto name = entry.substr(0, colon);
    if (name.empty()) continue;
    const bool has_port = colon != std::string::npos && colon + 1 < entry.size() && entry[colon + 1] != ':';
    list.entries.push_back({name, has_port ? std::atoi(entry.c_str() + colon + 1) : -1});
  }
  return list;
}

bool NameList::means(const Entry& entry, const std::string& name, int port) const {
  const bool same = exact ? name == entry.name : name.starts_with(entry.name);
  return same && (entry.port == -1 || port == -1 || entry.port == port);
}

bool NameList::admits(const std::string& name, int port) const {
  if (entries.empty()) return true;
  const bool meant = std::any_of(entries.begin(), entries.end(),
                                 [&](const Entry& entry) { return means(entry, name, port); });
  return meant != excludes;
}

}  // namespace trireme::topology
